// apps/ops/commands/stores.ts - tables and demo data: what start-up does by itself, for operators who run the servers elsewhere.
import type { Command } from "commander";
import { status as postgresStatus } from "../../../sinks/postgres/migrate.ts";
import { adminAccess } from "../config.ts";
import { print, printJson, tell } from "../output.ts";
import { migrateAll } from "../steps.ts";

const showStatus = async ({ json }: { json?: boolean }): Promise<void> => {
  const found = await postgresStatus(adminAccess().adminUrl);
  if (json) return printJson(found);
  print(`${found.applied.length} applied, ${found.pending.length} pending${found.pending.map((file) => `\n  ${file}`).join("")}`);
  for (const problem of found.problems) tell(problem);
  if (found.pending.length > 0) tell("to apply them: tributary migrate apply");
  if (found.problems.length > 0) process.exitCode = 1;
};

export const storeCommands = (program: Command): void => {
  const migrate = program
    .command("migrate")
    .description("tables of Postgres and ClickHouse; forward only, a failed step is taken up again");
  migrate.command("status").description("what is applied and what is pending").option("--json", "as JSON").action(showStatus);
  migrate
    .command("apply")
    .description("applies what is pending")
    .action(async () => migrateAll(adminAccess(), tell));
};

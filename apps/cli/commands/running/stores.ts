// Tables, first steps and demonstration data, for operators who run the servers elsewhere.
import type { Command } from "commander";
import { print, printJson, tell } from "../../../../infra/runtime/output.ts";
import { firstSteps } from "../../../../modules/running/installation/first-steps.ts";
import { seedStep } from "../../../../modules/running/installation/seed-step.ts";
import { migrateAll, migrationStatus } from "../../../../modules/running/installation/steps.ts";
import { addresses, adminAccess, homeOf, publicHosts, secretsText } from "../../config.ts";
import { withPool } from "../../pool.ts";

const showStatus = async ({ json }: { json?: boolean }): Promise<void> => {
  const found = await migrationStatus(adminAccess());
  if (json) return printJson(found);
  print(
    `${found.applied.length} applied, ${found.pending.length} ` +
      `pending${found.pending.map((file) => `\n  ${file}`).join("")}`,
  );
  for (const problem of found.problems) tell(problem);
  if (found.pending.length > 0) tell("to apply them: tributary migrate apply");
  if (found.problems.length > 0) process.exitCode = 1;
};

/** Lists the steps that a person still has to do after topics, schemas and tables exist. */
const showFirstSteps = ({ json }: { json?: boolean }): Promise<void> =>
  withPool(async (pool) => {
    const steps = await firstSteps(pool);
    if (json) return printJson({ steps });
    for (const { what, cure } of steps) print(`${what}: ${cure}`);
    if (steps.length === 0) print("an admin can come in, and nothing of the demonstration is open");
  });

const plantDemo = async ({ json }: { json?: boolean }): Promise<void> => {
  let made: Readonly<Record<string, unknown>> = {};
  const publish = (demo: typeof made): void => {
    made = demo;
  };
  const { tracking } = await publicHosts();
  await seedStep.run({
    env: {
      ...{ POSTGRES_URL: addresses().postgresUrl, TRIBUTARY_SECRET: secretsText() },
      ...(tracking !== undefined && { TRACKING_URL: tracking }),
    },
    home: homeOf(),
    publish,
  });
  if (json) return printJson(made);
  for (const { id, slug } of made.clients as readonly { id: number; slug: string }[]) print(`client ${id} ${slug}`);
  tell("for a token of one: tributary tokens create --client <slug>");
};

export const storeCommands = (program: Command): void => {
  const migrate = program
    .command("migrate")
    .description("tables of Postgres and ClickHouse; forward only, a failed step is taken up again");
  migrate
    .command("status")
    .description("what is applied and what is pending")
    .option("--json", "as JSON")
    .action(showStatus);
  migrate
    .command("apply")
    .description("applies what is pending")
    .option("--cluster <name>", "of ClickHouse: its tables are Replicated*, made ON CLUSTER (docs/scale.md)")
    .action(async ({ cluster }: { cluster?: string }) => migrateAll({ ...adminAccess(), cluster }, tell));
  program
    .command("seed")
    .description("says what an installation lacks before people can use it, and makes nothing; --demo makes the demo")
    .option("--demo", "the three demo clients with partners, links, contracts, people and tokens; what is there stays")
    .option("--json", "as JSON")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary seed\n  $ tributary seed --demo --json | jq -r '.clients[0].ingest_token'\n",
    )
    .action((options: { demo?: boolean; json?: boolean }) =>
      options.demo === true ? plantDemo(options) : showFirstSteps(options),
    );
};

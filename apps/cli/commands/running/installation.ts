// `tributary doctor`, and user tokens for curl.

import type { Command } from "commander";
import { stackConfig } from "../../../../infra/embedded/config.ts";
import { openHome, secretsOf } from "../../../../infra/embedded/home.ts";
import { demoToken } from "../../../../infra/embedded/servers/login.ts";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson } from "../../../../infra/runtime/output.ts";
import { doctor } from "../../../../modules/running/installation/doctor.ts";
import { homeOf, readRun } from "../../config.ts";

const examine = async ({ json }: { json?: boolean }): Promise<void> => {
  const checks = await doctor(openHome(homeOf()), stackConfig());
  if (json) printJson(checks);
  else
    for (const { ok, name, detail, cure } of checks) {
      print(`${ok ? "ok  " : "FAIL"}  ${name}: ${detail}`);
      if (!ok && cure) print(`      ${cure}`);
    }
  if (checks.some(({ ok }) => !ok)) process.exitCode = 1;
};

const login = async ({ as }: { as: string }): Promise<void> => {
  const run = readRun();
  const issuer = run.services.identity?.url;
  if (issuer === undefined)
    throw new Error("the embedded identity provider does not run here; tokens come from your own provider");
  const known = run.demo?.users ?? [];
  if (!known.some(({ email }) => email === as))
    throw new UsageError(
      `--as: no user of the demo is called ${as}; there are ${known.map(({ email }) => email).join(", ")}`,
    );
  print(await demoToken(issuer, secretsOf(openHome(homeOf())).login, as));
};

export const installationCommands = (program: Command): void => {
  program
    .command("doctor")
    .description("checks the machine and the installation, and says how to mend what is wrong")
    .option("--json", "as JSON")
    .addHelpText("before", "Examples:\n  $ tributary doctor\n  $ tributary doctor --json\n")
    .action(examine);
  program
    .command("login")
    .description("prints a user token of the embedded identity provider (15 minutes)")
    .requiredOption("--as <email>", "one of the demo users")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary login --as admin@demo.tributary.test\n" +
        '  $ curl -H "Authorization: Bearer $(npx tributary login --as admin@demo.tributary.test)" ...\n',
    )
    .action(login);
};

// What runs and where, what is wrong, and a user token for curl.

import type { Command } from "commander";
import { stackConfig } from "../../../../infra/embedded/config.ts";
import { openHome, secretsOf } from "../../../../infra/embedded/home.ts";
import { demoToken } from "../../../../infra/embedded/servers/login.ts";
import { print, printJson, table } from "../../../../infra/runtime/output.ts";
import { UsageError } from "../../../../infra/runtime/refused.ts";
import { type IngestPath, ingestPath } from "../../../../modules/edges/ingest-path.ts";
import { doctor } from "../../../../modules/installation/doctor.ts";
import { homeOf, readRun } from "../../config.ts";
import { withPool } from "../../connections.ts";

const isAlive = (pid: number | null | undefined): boolean => {
  if (pid === null || pid === undefined) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

/** Null while Postgres cannot be asked: addresses and processes are shown all the same. */
const pathNow = (): Promise<IngestPath | null> => withPool((pool) => ingestPath(pool)).catch(() => null);

const pathLine = (path: IngestPath | null): string => {
  if (path === null) return "ingest path: not known, Postgres does not answer";
  if (path.state === null || path.since === null) return "ingest path: no edge has checked it yet";
  const bad = path.instances.filter(({ state }) => state !== "operational");
  const details = bad.map(
    ({ instance, state, waiting_events: waiting }) => `${instance} ${state}, ${waiting} events wait`,
  );
  return [`ingest path: ${path.state} since ${new Date(path.since).toISOString()}`, ...details].join("; ");
};

const status = async ({ json }: { json?: boolean }): Promise<void> => {
  const run = readRun();
  const path = await pathNow();
  if (json) {
    printJson({ ...run, ingest_path: path });
    return;
  }
  const row = (name: string, address: string | undefined, pid: number | null | undefined) => [
    name,
    address ?? null,
    pid ?? null,
    isAlive(pid) ? "runs" : pid ? "gone" : "outside",
  ];
  print(
    table(
      ["process", "address", "pid", "state"],
      [
        ...Object.entries(run.apps).map(([name, app]) => row(name, app.url, app.pid)),
        ...Object.entries(run.services).map(([name, service]) =>
          row(name, "brokers" in service ? service.brokers : service.url.replace(/:[^:@/]+@/, ":***@"), service.pid),
        ),
      ],
    ),
  );
  for (const client of run.demo?.clients ?? [])
    print(`client ${client.id} ${client.slug}: ingest token ${client.ingest_token}`);
  print(pathLine(path));
  print(run.ready ? "ready" : "starting");
};

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
    .command("status")
    .description("what runs here: addresses, processes, demo tokens")
    .option("--json", "all of run.json, and what way events take into the log")
    .addHelpText("before", "Examples:\n  $ tributary status\n  $ tributary status --json | jq .apps.ingest.url\n")
    .action(status);
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

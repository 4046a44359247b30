// `tributary status`: the running processes, the findings of the keeper, and whether the starter of
// the stack still runs.
import type { Command } from "commander";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table } from "../../../../infra/runtime/output.ts";
import { type ControlAddress, controlOf, type ProcessStatus } from "../../../../infra/runtime/stack-control.ts";
import { within } from "../../../../infra/runtime/timing/time-limit.ts";
import { type IngestPath, ingestPath } from "../../../../modules/intake/path/ingest-path.ts";
import { STALE_MS } from "../../../../modules/running/repair/health.ts";
import { listProbes, type ProbeRow } from "../../../../modules/running/repair/probe-states.ts";
import type { UnixMs } from "../../../../stream/flow.ts";
import { type Run, readRun } from "../../config.ts";
import { withPool } from "../../pool.ts";

const STARTER_MS = 2_000;
const STORE_MS = 3_000;

const isAlive = (pid: number | null | undefined): boolean => {
  if (pid === null || pid === undefined) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

/** Returns the states that the starter reports; null when it is gone or hangs. */
const fromStarter = (control: ControlAddress | undefined): Promise<readonly ProcessStatus[] | null> =>
  control === undefined
    ? Promise.resolve(null)
    : within(STARTER_MS, controlOf({ control }).status(), "no answer").catch(() => null);

export interface StatusParts {
  readonly run: Run;
  readonly processes: readonly ProcessStatus[] | null;
  /** Null while Postgres does not answer. */
  readonly probes: readonly ProbeRow[] | null;
  readonly path: IngestPath | null;
}

const ask = async (): Promise<StatusParts> => {
  const run = readRun();
  const [processes, stored] = await Promise.all([
    fromStarter(run.control),
    within(
      STORE_MS,
      withPool(async (pool) => ({ probes: await listProbes(pool), path: await ingestPath(pool) })),
      "no answer",
    ).catch(() => ({ probes: null, path: null })),
  ]);
  return { run, processes, ...stored };
};

const iso = (at: UnixMs): string => new Date(at).toISOString();

const pathLine = (path: IngestPath | null): string => {
  if (path === null) return "ingest path: not known, Postgres does not answer";
  if (path.state === null || path.since === null) return "ingest path: no edge has checked it yet";
  const bad = path.instances.filter(({ state }) => state !== "operational");
  const details = bad.map(
    ({ instance, state, waiting_events: waiting, reason }) =>
      `${instance} ${state}, ${waiting ?? "an unknown number of"} events wait${reason === null ? "" : `: ${reason}`}`,
  );
  return [`ingest path: ${path.state} since ${iso(path.since)}`, ...details].join("; ");
};

const probeLines = (probes: readonly ProbeRow[] | null, now: UnixMs): readonly string[] => {
  if (probes === null) return ["keeper: what it knows is in Postgres, which does not answer"];
  const checked = probes.flatMap(({ checked_at }) => checked_at ?? []);
  if (checked.length === 0) return ["keeper: it has not probed yet"];
  const oldest = Math.round((now - Math.min(...checked)) / 1_000);
  const stale = now - Math.max(...checked) > STALE_MS ? [`keeper: no probe for ${oldest} s, so no keeper works`] : [];
  const bad = probes.filter(({ state }) => state !== "healthy");
  if (bad.length > 0)
    return [
      ...stale,
      ...bad.map(({ name, state, since, last_error }) => `keeper: ${name} ${state} since ${iso(since)}: ${last_error}`),
    ];
  return stale.length > 0 ? stale : [`keeper: all ${probes.length} probes are healthy, the oldest ${oldest} s ago`];
};

/**
 * `paused` means held by SIGSTOP: the process is alive, and does not answer. One that is started
 * again has no number yet, like a server outside.
 */
const stateOf = ({ processes }: StatusParts, name: string, pid: number | null | undefined): string => {
  const state = processes?.find((one) => one.name === name)?.state ?? "running";
  if (state !== "running") return state;
  return isAlive(pid) ? "runs" : pid ? "gone" : "outside";
};

const GONE =
  "starter: gone (npm start does not answer): what dies now is not started again. " +
  "Start it again, it ends what is left and keeps the data: npm start";

/** Returns a word for everything that is wrong; empty when all is well. */
const troubles = (
  known: StatusParts,
  states: readonly (readonly [string, string])[],
  now: UnixMs,
): readonly string[] => [
  ...(known.processes === null ? ["the starter"] : []),
  ...states.flatMap(([name, state]) =>
    ["gone", "paused", "starting", "stopped"].includes(state) ? `${name} (${state})` : [],
  ),
  ...(known.probes ?? []).flatMap(({ name, state }) => (state === "healthy" ? [] : `${name} (${state})`)),
  ...(known.probes === null ? ["Postgres"] : []),
  ...(probeLines(known.probes, now)[0]!.includes("no keeper works") ? ["the keeper"] : []),
  ...(known.path?.state && known.path.state !== "operational" ? [`ingest path (${known.path.state})`] : []),
];

/** Returns the output; its last line is `ready`, `not well: ...` or `starting`. */
export const statusText = (known: StatusParts, now: UnixMs): string => {
  const { run, processes, probes, path } = known;
  const apps = Object.entries(run.apps).map(([name, { url, pid }]) => ({ name, address: url, pid }));
  const services = Object.entries(run.services).map(([name, service]) => ({
    name,
    address: "brokers" in service ? service.brokers : service.url.replace(/:[^:@/]+@/, ":***@"),
    pid: service.pid,
  }));
  const rows = [...apps, ...services].map((one) => ({ ...one, state: stateOf(known, one.name, one.pid) }));
  const cells = rows.map(({ name, address, pid, state }) => [name, address ?? null, pid ?? null, state]);
  const wrong = troubles(
    known,
    rows.map(({ name, state }) => [name, state]),
    now,
  );
  return [
    table(["process", "address", "pid", "state"], cells),
    ...(run.demo?.clients ?? []).map(
      ({ id, slug, ingest_token }) => `client ${id} ${slug}: ingest token ${ingest_token}`,
    ),
    ...(processes === null ? [GONE] : []),
    ...probeLines(probes, now),
    pathLine(path),
    !run.ready ? "starting" : wrong.length === 0 ? "ready" : `not well: ${wrong.join(", ")}`,
  ].join("\n");
};

/** Returns an address of an app. Throws UsageError with the names that have one. */
export const addressIn = ({ apps }: Pick<Run, "apps">, name: string, kind: "url" | "ops_url"): string => {
  const found = Object.hasOwn(apps, name) ? apps[name]?.[kind] : undefined;
  if (found !== undefined) return found;
  const having = Object.keys(apps).filter((one) => apps[one]?.[kind] !== undefined);
  throw new UsageError(`${name} has no such address here; these have one: ${having.join(", ")}`);
};

interface StatusOptions {
  readonly json?: boolean;
  readonly address?: string;
  readonly sideAddress?: string;
}
const status = async ({ json, address, sideAddress }: StatusOptions): Promise<void> => {
  // Both ask nothing but the file, so that they answer while everything hangs.
  if (address !== undefined) return print(addressIn(readRun(), address, "url"));
  if (sideAddress !== undefined) return print(addressIn(readRun(), sideAddress, "ops_url"));
  const known = await ask();
  if (!json) return print(statusText(known, Date.now()));
  const { run, processes, probes, path } = known;
  printJson({ ...run, starter: processes === null ? "gone" : "runs", processes, probes, ingest_path: path });
};

export const statusCommand = (program: Command): void => {
  program
    .command("status")
    .description("what runs here: addresses, processes, demo tokens, what the keeper knows")
    .option("--json", "all of run.json, what the keeper knows, and what way events take into the log")
    .option("--address <process>", "its address alone")
    .option("--side-address <process>", "the address of its /livez, /readyz and /metrics alone")
    .addHelpText("before", "Examples:\n  $ tributary status\n  $ curl -s $(tributary status --address ingest)/health\n")
    .action(status);
};

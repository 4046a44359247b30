// Measures how long twenty commands take that change nothing, and how soon they name a server that
// hangs. Runs on a new stack with a thousand sales; each command runs without npx, whose own share
// is measured apart. Their CPU is compared with an empty Node process of the same run.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { needsOf } from "../apps/cli/commands.ts";
import type { ServiceName } from "../infra/embedded/service.ts";
import { table } from "../infra/runtime/output.ts";
import { randomFrom } from "../infra/runtime/random.ts";
import { until } from "../infra/runtime/timing/wait-until.ts";
import { apps } from "../modules/running/installation/product.ts";
import { eventsOf, post } from "../tests/support/e2e-load.ts";
import { median, save } from "./figures.ts";
import { openWorld, type World } from "./world.ts";

const commands = [
  "--help",
  "report --help",
  "status",
  "probes",
  "alerts",
  "tokens list",
  "users list",
  "waiting",
  "dlq list",
  "reference list contracts",
  "reference show partners 1",
  "report --client aurora-music --by month",
  "report --client casa-verde --by partner",
  "explain bench-1",
  "groups",
  "lag",
  "topics plan",
  "peek events.raw -n 3",
  "operations",
  "hash",
] as const;
const HELP_MS = 600;
const READ_MS = 1_000;
const HANGS_MS = 5_000;
const SERVERS = ["kafka", "postgres", "clickhouse", "redis", "registry"] as const;
const EVENTS = 2_000;

interface Timed {
  readonly wallMs: number;
  readonly cpuMs: number;
  readonly code: number;
}

type Words = readonly string[];
const EMPTY_NODE: Words = [process.execPath, "-e", "0"];
const wordsOf = (command: string): Words => [process.execPath, "scripts/tributary.mjs", ...command.split(" ")];

/** The shell measures the CPU of the command. Asynchronous, because this process runs the stack. */
const typed = async (home: string, words: Words): Promise<Timed> => {
  const script = 'TIMEFORMAT="%R %U %S"; exec 3>&2; { time "$@" >/dev/null 2>&1; } 2>&3; echo $?';
  const env = { ...process.env, TRIBUTARY_HOME: home };
  const { stdout, stderr } = await promisify(execFile)("bash", ["-c", script, "bash", ...words], { env });
  const [wall, user, system] = stderr
    .trim()
    .split(/\s+/)
    .map((seconds) => Math.round(Number(seconds) * 1_000));
  return { wallMs: wall!, cpuMs: user! + system!, code: Number(stdout) };
};

interface Measured extends Timed {
  /** The least CPU, as the other processes of the machine only add to it. */
  readonly leastCpuMs: number;
}

const measured = async (home: string, words: Words, runs: number): Promise<Measured> => {
  const all: Timed[] = [];
  for (let n = 0; n < runs; n += 1) all.push(await typed(home, words));
  return {
    wallMs: median(all.map(({ wallMs }) => wallMs)),
    cpuMs: median(all.map(({ cpuMs }) => cpuMs)),
    leastCpuMs: Math.min(...all.map(({ cpuMs }) => cpuMs)),
    code: all.find(({ code }) => code !== 0)?.code ?? 0,
  };
};

const sell = async ({ stack, home }: World): Promise<void> => {
  const { clients } = stack.run.demo as { clients: { id: number; slug: string; ingest_token: string }[] };
  const { id, ingest_token: token } = clients.find(({ slug }) => slug === "aurora-music")!;
  const events = eventsOf(randomFrom(1), "bench", id)(EVENTS);
  const { status, accepted } = await post(stack.run.apps.ingest!.url!, token, events);
  if (accepted !== EVENTS) throw new Error(`ingest answers ${status}: ${accepted} of ${EVENTS} events were accepted`);
  await until("an event is explained", 120_000, async () => {
    if ((await typed(home, wordsOf("explain bench-1"))).code !== 0) throw new Error("it is on its way");
  });
};

interface Hung extends Timed {
  readonly server: ServiceName;
}
/** Runs each command with each of its servers hanging, and keeps the slowest. */
const whileHanging = async (world: World): Promise<ReadonlyMap<string, Hung>> => {
  const slowest = new Map<string, Hung>();
  for (const server of SERVERS) {
    world.stack.kill(server, "SIGSTOP");
    for (const command of commands) {
      const name = command.split(" ")[0]!;
      if (name !== "status" && !needsOf(name).includes(server)) continue;
      if (command.endsWith("--help")) continue;
      const took = { ...(await typed(world.home, wordsOf(command))), server };
      if (took.wallMs > (slowest.get(command)?.wallMs ?? 0)) slowest.set(command, took);
    }
    world.stack.kill(server, "SIGCONT");
  }
  return slowest;
};

const marked = (ms: number, limit: number): string => (ms <= limit ? String(ms) : `${ms} (above ${limit})`);

export const run = async ({ runs = "3" }: { readonly runs?: string }): Promise<void> => {
  const names = ["ingest", "worker-chain", "worker-money", "keeper"];
  const world = await openWorld(
    apps.filter(({ name }) => names.includes(name)),
    { tokens: 1 },
  );
  try {
    await sell(world);
    const often = Number(runs);
    const empty = await measured(world.home, EMPTY_NODE, often);
    const found: (Measured & { readonly command: string })[] = [];
    for (const command of commands) found.push({ command, ...(await measured(world.home, wordsOf(command), often)) });
    const npx = await measured(world.home, ["npx", "tributary", "--help"], often);
    // The keeper would restart the server that hangs.
    await world.stack.stop("keeper");
    const hanging = await whileHanging(world);
    const rows = found.map(({ command, wallMs, cpuMs, leastCpuMs, code }) => {
      const hung = hanging.get(command);
      return [
        command,
        marked(wallMs, command.endsWith("--help") ? HELP_MS : READ_MS),
        String(cpuMs),
        (leastCpuMs / empty.leastCpuMs).toFixed(1),
        String(code),
        hung === undefined ? "-" : `${marked(hung.wallMs, HANGS_MS)}, ${hung.server}, exit ${hung.code}`,
      ];
    });
    const columns = [
      "tributary",
      "wall ms",
      "CPU ms",
      "times an empty Node",
      "exit",
      "slowest with a server that hangs, ms",
    ];
    process.stdout.write(`${table(columns, rows)}\n`);
    const npxOwn = npx.leastCpuMs - found[0]!.leastCpuMs;
    process.stdout.write(
      `an empty Node process: ${empty.leastCpuMs} ms of CPU; npx adds ${npxOwn} ms of its own to each command\n`,
    );
    save("commands", { empty, npx, found, hanging: [...hanging] });
  } finally {
    await world.stop();
  }
};

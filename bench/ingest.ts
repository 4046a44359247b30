// Measures how many events a second one ingest process, or two of them, accept with the log's
// acknowledgement, and the same for a tutorial twin on the same broker.
import { UsageError } from "../infra/runtime/command-errors.ts";
import { apps } from "../modules/running/installation/product.ts";
import { cpuUsOf, rssMiBOf, save } from "./figures.ts";
import type { LoadResult } from "./load/generator.ts";
import { type Measured, tableOf } from "./load/measured.ts";
import { peerNamed, type Running, startPeer, type Target, tutorialTwin } from "./load/peer.ts";
import { CONNECTIONS, visits, WARM_UP_SECONDS } from "./load/visits.ts";
import { generate, openWorld, type World } from "./world.ts";

const BODIES_WARM_UP_SECONDS = 5;
/**
 * 15,000 single events a second are 900,000 requests a minute, spread over tokens within their
 * limit.
 */
const TOKENS = 300;
const REQUESTS_A_MINUTE = 10_000;
let serial = 0;

/** Processes that are measured as one: one or two of ours, or a peer. */
interface Taker {
  readonly who: string;
  readonly targets: readonly Target[];
}

const cpuOf = (targets: readonly Target[]): number => targets.reduce((sum, { pid }) => sum + cpuUsOf(pid), 0);

/** Sends bodies of many events, with three under way at each process. */
const measureBodies = async (
  world: World,
  { who, targets }: Taker,
  eventsPerBody: number,
  seconds: number,
): Promise<Measured> => {
  const shape = { path: "/ingest/batch", clientId: world.clientId, eventsPerBody, purchases: 0.02, seed: 7 };
  const load = async (during: number): Promise<readonly LoadResult[]> => {
    const results = await Promise.all(
      targets.map(({ url }, n) => {
        const own = { url, tokens: world.tokens, firstSerial: serial + n * SERIALS_APART };
        return generate({ ...shape, ...own, rate: 0, inFlight: 3, seconds: during });
      }),
    );
    serial = Math.max(...results.map(({ lastSerial }) => lastSerial));
    return results;
  };
  await load(BODIES_WARM_UP_SECONDS);
  const kafka = world.stack.pid("kafka")!;
  const before = [cpuOf(targets), cpuUsOf(kafka)] as const;
  const results = await load(seconds);
  const sum = (of: (one: LoadResult) => number): number => results.reduce((all, one) => all + of(one), 0);
  const accepted = sum((one) => one.accepted);
  return {
    who,
    batch: eventsPerBody,
    eventsPerSecond: sum((one) => one.accepted / one.seconds),
    edgeUs: (cpuOf(targets) - before[0]) / accepted,
    brokerUs: (cpuUsOf(kafka) - before[1]) / accepted,
    generatorUs: sum((one) => one.cpuUsPerEvent * one.accepted) / accepted,
    p50Ms: Math.max(...results.map(({ p50Ms }) => p50Ms)),
    p99Ms: Math.max(...results.map(({ p99Ms }) => p99Ms)),
    rssMiB: Math.max(...targets.map(({ pid }) => rssMiBOf(pid))),
    refusedBodies: sum((one) => one.refusedBodies),
  };
};
/** Keeps the serial numbers of two generators apart, so that they send no event twice. */
const SERIALS_APART = 100_000_000;

/** Sends requests of one event, first at the highest rate that is answered, then at half of it. */
const measureSingle = async (world: World, target: Target, seconds: number): Promise<readonly Measured[]> => {
  const order = {
    port: Number(new URL(target.url).port),
    path: "/ingest/batch",
    eventsOf: world.clientId,
    tokens: world.tokens,
    connections: CONNECTIONS,
  };
  await visits({ ...order, rate: 0, seconds: WARM_UP_SECONDS });
  const kafka = world.stack.pid("kafka")!;
  const rows: Measured[] = [];
  for (const who of ["tributary", "tributary, half of that"]) {
    const rate = Math.round((rows[0]?.eventsPerSecond ?? 0) / 2);
    const before = [cpuUsOf(target.pid), cpuUsOf(kafka)] as const;
    const { answered, others, cpuUs, p50Ms, p99Ms, ...result } = await visits({ ...order, rate, seconds });
    rows.push({
      ...{ who, batch: 1, eventsPerSecond: answered / result.seconds },
      edgeUs: (cpuUsOf(target.pid) - before[0]) / answered,
      brokerUs: (cpuUsOf(kafka) - before[1]) / answered,
      ...{ generatorUs: cpuUs / answered, p50Ms, p99Ms, rssMiB: rssMiBOf(target.pid), refusedBodies: others },
    });
  }
  return rows;
};

type Measure = () => Promise<readonly Measured[]>;

const measuresOf = (
  world: World,
  peers: readonly Running[],
  { seconds, bodies, processes }: Asked,
): readonly Measure[] => {
  const targets = HOSTS.slice(0, processes).map((name) => ({
    url: world.stack.run.apps[name]!.url,
    pid: world.stack.pid(name)!,
  }));
  const ours = { who: processes === 1 ? "tributary" : `tributary, ${processes} processes`, targets };
  return [
    ...bodies.map(
      (events): Measure =>
        events === 1
          ? () => measureSingle(world, targets[0]!, seconds)
          : async () => [await measureBodies(world, ours, events, seconds)],
    ),
    ...peers.map(
      (peer): Measure =>
        async () => [await measureBodies(world, { who: peer.name, targets: [peer] }, 10_000, seconds)],
    ),
  ];
};

interface Asked {
  readonly seconds: number;
  /** Events a body. */
  readonly bodies: readonly number[];
  readonly processes: number;
}

/**
 * Both processes are started alike here, although the second one is the standby in an installation.
 */
const HOSTS = ["ingest", "ingest-standby"] as const;
const hosts = (processes: number) => {
  const [first, second] = HOSTS.map((wanted) => apps.find(({ name }) => name === wanted)!);
  return processes === 1 ? [first!] : [first!, { ...second!, nodeArgs: first!.nodeArgs! }];
};

/**
 * `--seconds` a run (20), `--runs` (3), `--bodies` events a body (10000,1000,1), `--processes` of
 * ours side by side (1), `--peer name=command`. Prints medians over the runs.
 */
export const run = async (options: {
  seconds?: string;
  runs?: string;
  bodies?: string;
  processes?: string;
  peer?: string[];
}): Promise<void> => {
  const runs = Number(options.runs ?? 3);
  const asked = {
    seconds: Number(options.seconds ?? 20),
    bodies: (options.bodies ?? "10000,1000,1").split(",").map(Number),
    processes: Number(options.processes ?? 1),
  };
  if (asked.processes !== 1 && asked.processes !== 2) throw new UsageError("--processes: must be 1 or 2");
  // The twin runs only if all sizes of bodies are measured on one process of ours.
  const isAll = options.bodies === undefined && asked.processes === 1;
  const peers = [...(isAll ? [tutorialTwin] : []), ...(options.peer ?? []).map(peerNamed)];
  const world = await openWorld(hosts(asked.processes), { tokens: TOKENS, requestsAMinute: REQUESTS_A_MINUTE });
  const all: Measured[] = [];
  const running: Running[] = [];
  try {
    for (const peer of peers) running.push(await startPeer(peer, world.stack.env));
    for (let n = 0; n < runs; n += 1)
      for (const measure of measuresOf(world, running, asked))
        for (const one of await measure()) {
          process.stderr.write(
            `run ${n + 1} of ${runs}: ${one.who}, ${one.batch} a body: ${Math.round(one.eventsPerSecond)} events/s, ` +
              `${one.edgeUs.toFixed(1)} us\n`,
          );
          all.push(one);
        }
  } finally {
    for (const peer of running) peer.stop();
    await world.stop();
  }
  process.stdout.write(`${tableOf(all)}\n`);
  process.stdout.write(`${save("ingest", { ...asked, runs: all })}\n`);
};

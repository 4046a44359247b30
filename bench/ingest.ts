// How many events a second one ingest process takes after the log's acknowledgement, and the same
// from a tutorial twin on the same broker.
import { apps } from "../modules/installation/product.ts";
import { cpuUsOf, rssMiBOf, save } from "./figures.ts";
import { type Measured, tableOf } from "./load/measured.ts";
import { peerNamed, type Running, startPeer, type Target, tutorialTwin } from "./load/peer.ts";
import { generate, openWorld, type World } from "./world.ts";

const WARM_UP_SECONDS = 5;
/**
 * Single events at 12,000 a second, warm-up included, for three runs of 20 s: 900,000 requests at
 * 100 a minute and token, over about three minutes.
 */
const TOKENS = 3_000;
let serial = 0;

const measure = async (
  world: World,
  who: string,
  target: Target,
  eventsPerBody: number,
  seconds: number,
): Promise<Measured> => {
  const order = {
    url: target.url,
    path: "/ingest/batch",
    tokens: world.tokens,
    clientId: world.clientId,
    eventsPerBody,
    purchases: 0.02,
    rate: 0,
    inFlight: eventsPerBody === 1 ? 64 : 3,
    seed: 7,
  };
  serial = (await generate({ ...order, seconds: WARM_UP_SECONDS, firstSerial: serial })).lastSerial;
  const kafka = world.stack.pid("kafka")!;
  const before = [cpuUsOf(target.pid), cpuUsOf(kafka)] as const;
  const result = await generate({ ...order, seconds, firstSerial: serial });
  serial = result.lastSerial;
  return {
    who,
    batch: eventsPerBody,
    eventsPerSecond: result.accepted / result.seconds,
    edgeUs: (cpuUsOf(target.pid) - before[0]) / result.accepted,
    brokerUs: (cpuUsOf(kafka) - before[1]) / result.accepted,
    generatorUs: result.cpuUsPerEvent,
    p50Ms: result.p50Ms,
    p99Ms: result.p99Ms,
    rssMiB: rssMiBOf(target.pid),
    refusedBodies: result.refusedBodies,
  };
};

const kindsOf = (edge: Target, peers: readonly Running[]): readonly (readonly [string, Target, number])[] => [
  ["tributary", edge, 10_000],
  ["tributary", edge, 1_000],
  ["tributary", edge, 1],
  ...peers.map((peer) => [peer.name, peer, 10_000] as const),
];

/** `--seconds` a run (20), `--runs` (3), `--peer name=command`. Prints medians over the runs. */
export const run = async (options: { seconds?: string; runs?: string; peer?: string[] }): Promise<void> => {
  const seconds = Number(options.seconds ?? 20);
  const runs = Number(options.runs ?? 3);
  const peers = [tutorialTwin, ...(options.peer ?? []).map(peerNamed)];
  const world = await openWorld(
    apps.filter(({ name }) => name === "ingest"),
    { tokens: TOKENS },
  );
  const all: Measured[] = [];
  const running: Running[] = [];
  try {
    const edge = { url: world.stack.run.apps.ingest!.url, pid: world.stack.pid("ingest")! };
    for (const peer of peers) running.push(await startPeer(peer, world.stack.env));
    for (let n = 0; n < runs; n += 1)
      for (const [who, target, batch] of kindsOf(edge, running)) {
        const one = await measure(world, who, target, batch, seconds);
        process.stderr.write(
          `run ${n + 1} of ${runs}: ${who}, ${batch} a body: ${Math.round(one.eventsPerSecond)} events/s, ` +
            `${one.edgeUs.toFixed(1)} us\n`,
        );
        all.push(one);
      }
  } finally {
    for (const peer of running) peer.stop();
    await world.stop();
  }
  process.stdout.write(`${tableOf(all)}\n`);
  process.stdout.write(`${save("ingest", { seconds, runs: all })}\n`);
};

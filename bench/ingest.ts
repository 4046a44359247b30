// How many events a second one ingest process takes after the log's acknowledgement, and the same
// from a tutorial twin on the same broker.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { openKafka } from "../infra/kafka/kafka.ts";
import { table } from "../infra/runtime/output.ts";
import { apps } from "../modules/installation/product.ts";
import { circumstances, cpuUsOf, median, rssMiBOf, save } from "./figures.ts";
import { generate, openWorld, type World } from "./world.ts";

interface Measured {
  readonly who: string;
  readonly batch: number;
  readonly eventsPerSecond: number;
  readonly edgeUs: number;
  readonly brokerUs: number;
  readonly generatorUs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly rssMiB: number;
  readonly refusedBodies: number;
}
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

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  return port;
};

/** The twin takes the same bodies; its schema holds the same fields, props as one text. */
const startTwin = async (world: World): Promise<{ url: string; pid: number; stop: () => void }> => {
  const { env } = world.stack;
  const topic = "bench.twin";
  const admin = await openKafka({ brokers: env.KAFKA_BROKERS!, clientId: "bench" }).admin();
  await admin.apply([{ name: topic, partitions: 12, retentionMs: 3_600_000 }]);
  await admin.close();
  const fields = ["t", "ts", "cid", "did", "event_id", "url", "ref", "ip", "ua", "consent", "props"];
  const schema = {
    type: "record",
    name: "TwinEvent",
    fields: fields.map((name) => ({
      name,
      type: name === "ts" ? "long" : name === "cid" || name === "consent" ? "int" : "string",
    })),
  };
  const registered = await fetch(`${env.SCHEMA_REGISTRY_URL}/subjects/${topic}-value/versions`, {
    method: "POST",
    headers: { "content-type": "application/vnd.schemaregistry.v1+json" },
    body: JSON.stringify({ schema: JSON.stringify(schema) }),
  });
  const { id } = (await registered.json()) as { id: number };
  const port = await freePort();
  const settings = { brokers: env.KAFKA_BROKERS, registryUrl: env.SCHEMA_REGISTRY_URL, schemaId: id, topic, port };
  const child = spawn(
    process.execPath,
    [new URL("./load/twin.js", import.meta.url).pathname, JSON.stringify(settings)],
    {
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  await once(child.stdout, "data");
  return { url: `http://127.0.0.1:${port}`, pid: child.pid!, stop: () => child.kill() };
};

interface Target {
  readonly url: string;
  readonly pid: number;
}
const kindsOf = (edge: Target, twin: Target): readonly (readonly [string, Target, number])[] => [
  ["tributary", edge, 10_000],
  ["tributary", edge, 1_000],
  ["tributary", edge, 1],
  ["tutorial twin", twin, 10_000],
];

/** `--seconds` a run (20), `--runs` (3). Prints medians over the runs. */
export const run = async (options: { seconds?: string; runs?: string }): Promise<void> => {
  const seconds = Number(options.seconds ?? 20);
  const runs = Number(options.runs ?? 3);
  const world = await openWorld(
    apps.filter(({ name }) => name === "ingest"),
    { tokens: TOKENS },
  );
  const all: Measured[] = [];
  try {
    const edge = { url: world.stack.run.apps.ingest!.url, pid: world.stack.pid("ingest")! };
    const twin = await startTwin(world);
    for (let n = 0; n < runs; n += 1)
      for (const [who, target, batch] of kindsOf(edge, twin)) {
        const one = await measure(world, who, target, batch, seconds);
        process.stderr.write(
          `run ${n + 1} of ${runs}: ${who}, ${batch} a body: ${Math.round(one.eventsPerSecond)} events/s, ` +
            `${one.edgeUs.toFixed(1)} us\n`,
        );
        all.push(one);
      }
    twin.stop();
  } finally {
    await world.stop();
  }
  const kinds = [...new Set(all.map(({ who, batch }) => `${who}|${batch}`))];
  const rows = kinds.map((kind) => {
    const own = all.filter(({ who, batch }) => `${who}|${batch}` === kind);
    const of = (pick: (one: Measured) => number) => median(own.map(pick));
    return [
      own[0]!.who,
      own[0]!.batch,
      Math.round(of((one) => one.eventsPerSecond)),
      of((one) => one.edgeUs).toFixed(1),
      of((one) => one.brokerUs).toFixed(1),
      of((one) => one.generatorUs).toFixed(1),
      of((one) => one.p50Ms).toFixed(0),
      of((one) => one.p99Ms).toFixed(0),
      of((one) => one.rssMiB).toFixed(0),
      own.reduce((sum, one) => sum + one.refusedBodies, 0),
    ];
  });
  const headers = "who,batch,events/s,edge us,broker us,generator us,p50 ms,p99 ms,RSS MiB,refused".split(",");
  process.stdout.write(`${table(headers, rows)}\n`);
  process.stdout.write(`${save("ingest", { ...circumstances(), seconds, runs: all })}\n`);
};

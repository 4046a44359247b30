// Builds a store again from the log: measures how fast that many events come back, their cost for
// each process, and whether memory stays flat.
import { spawn } from "node:child_process";
import { setTimeout } from "node:timers/promises";
import { openClickhouse } from "../infra/clickhouse/client.ts";
import { type Kafka, openKafka } from "../infra/kafka/kafka.ts";
import { table } from "../infra/runtime/output.ts";
import { groupNamed } from "../modules/log/groups/hosting.ts";
import { apps } from "../modules/running/installation/product.ts";
import type { OutputMessage } from "../stream/messages.ts";
import { topics } from "../topics.ts";
import { cpuUsOf, median, rssMiBOf, save } from "./figures.ts";
import { generate, openWorld, type World } from "./world.ts";

const TOPIC = topics.eventsAttributed.name;
const GROUP = groupNamed("analytics");
/** The number of real events; all others are copies of them with new ids. */
const SAMPLE = 20_000;
const A_SEND = 2_000;
const SENDS_AT_ONCE = 4;
const SAMPLED_EVERY_MS = 1_000;
const SAMPLED_BY = ["ingest", "worker-chain", "worker-money"] as const;
/** Time for settle to process its input. */
const SETTLED_MS = 4_000;
const PROCESSES = ["worker-money", "clickhouse", "kafka", "postgres"] as const;

const appOf = (name: string) => apps.find((app) => app.name === name)!;

/** Events as the edge, the chain and settle write them to the log. */
const sampled = async (world: World, kafka: Kafka): Promise<readonly OutputMessage[]> => {
  const sample: OutputMessage[] = [];
  const order = {
    ...{ url: world.stack.run.apps.ingest!.url, path: "/ingest/batch", tokens: world.tokens, clientId: world.clientId },
    ...{ eventsPerBody: 1_000, purchases: 0.02, inFlight: 2, seed: 13, seconds: 2, rate: SAMPLE / 2, firstSerial: 0 },
  };
  await generate(order);
  await setTimeout(SETTLED_MS);
  await kafka.replay({
    topics: [TOPIC],
    onBatch: ({ topic, messages }) => {
      for (const { key, value } of messages.slice(0, SAMPLE - sample.length))
        sample.push({ topic, key: Buffer.from(key!), value: Buffer.from(value!) });
    },
  });
  return sample;
};

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/;
/** The last digits of an id are the number of the copy. */
const DIGITS = 12;

/** Writes `count` copies of the sample, each event with a new id. */
const fill = async (kafka: Kafka, sample: readonly OutputMessage[], count: number): Promise<void> => {
  // In the bytes of an event its id follows its key, which holds the id of the device.
  const ends = sample.map(({ value }) => {
    const text = value!.toString("latin1");
    return text.search(UUID) + 36;
  });
  const producer = kafka.producer();
  const sendFrom = async (from: number): Promise<void> => {
    const messages = Array.from({ length: Math.min(A_SEND, count - from) }, (_, i): OutputMessage => {
      const n = (from + i) % sample.length;
      const { topic, key, value } = sample[n]!;
      const copy = Buffer.from(value!);
      copy.write((from + i).toString(16).padStart(DIGITS, "0"), ends[n]! - DIGITS, "latin1");
      return { topic, key, value: copy };
    });
    await producer.send(messages);
  };
  let next = 0;
  const sender = async (): Promise<void> => {
    while (next < count) {
      const from = next;
      next += A_SEND;
      await sendFrom(from);
    }
  };
  await Promise.all(Array.from({ length: SENDS_AT_ONCE }, sender));
  await producer.close();
};

/** Runs the command as an operator would. */
const rewound = ({ stack }: World): Promise<void> =>
  new Promise((resolve, reject) => {
    const env = { ...process.env, ...stack.env, TRIBUTARY_HOME: stack.home };
    const command = [new URL("../apps/cli/main.js", import.meta.url).pathname, "rewind", "analytics"];
    const child = spawn(process.execPath, [...command, "--to", "earliest", "--yes"], { env, stdio: "inherit" });
    child.once("exit", (code) => (code === 0 ? resolve() : reject(new Error(`rewind ended with ${code}`))));
  });

/** The group of the event sinks reads `--events` of the log again (2,000,000). */
export const run = async (options: { readonly events?: string }): Promise<void> => {
  const events = Number(options.events ?? 2_000_000);
  const world = await openWorld(SAMPLED_BY.map(appOf));
  const { stack } = world;
  const kafka = openKafka({ brokers: stack.env.KAFKA_BROKERS!, clientId: "bench" });
  const admin = await kafka.admin();
  const clickhouse = openClickhouse(stack.env.CLICKHOUSE_URL!, { timeoutMs: 120_000 });
  try {
    const sample = await sampled(world, kafka);
    for (const name of SAMPLED_BY) await stack.stop(name);
    const filling = performance.now();
    await fill(kafka, sample, events);
    const filled = (performance.now() - filling) / 1_000;
    const marks = await admin.watermarks(TOPIC);
    // The state after a loss: the group has read everything, and the stores hold none of it.
    await admin.setOffsets(GROUP, TOPIC, new Map(marks.map(({ partition, high }) => [partition, high])));
    await stack.start(appOf("worker-money"));
    const pids = PROCESSES.map((name) => ({ name, pid: stack.pid(name)! }));
    const rss = new Map<string, number[]>(PROCESSES.map((name) => [name, []]));
    const before = new Map(pids.map(({ name, pid }) => [name, cpuUsOf(pid)]));
    const sampling = setInterval(() => {
      for (const { name, pid } of pids) rss.get(name)!.push(rssMiBOf(pid));
    }, SAMPLED_EVERY_MS);
    const started = performance.now();
    await rewound(world).finally(() => clearInterval(sampling));
    const seconds = (performance.now() - started) / 1_000;
    const read = marks.reduce((sum, { high }) => sum + high, 0);
    const stored = await clickhouse.query({
      query: "select uniqExact(event_id) as n from events",
      format: "JSONEachRow",
    });
    const [row] = await stored.json<{ n: string }>();
    const processes = pids.map(({ name, pid }) => {
      const all = rss.get(name)!;
      const third = Math.ceil(all.length / 3);
      return {
        name,
        us: (cpuUsOf(pid) - before.get(name)!) / read,
        firstMiB: median(all.slice(0, third)),
        lastMiB: median(all.slice(-third)),
        mostMiB: Math.max(...all),
      };
    });
    const result = { events, read, stored: Number(row!.n), seconds, filled, processes, rss: Object.fromEntries(rss) };
    process.stdout.write(
      `${table(
        ["process", "us an event", "MiB, first third", "MiB, last third", "most MiB"],
        processes.map(({ name, us, firstMiB, lastMiB, mostMiB }) => [
          name,
          us.toFixed(1),
          ...[firstMiB, lastMiB, mostMiB].map((mib) => Math.round(mib)),
        ]),
      )}\n${read} events were read again in ${seconds.toFixed(1)} s, ${Math.round(read / seconds)}/s; ` +
        `ClickHouse holds ${row!.n} ids; filling the log took ${filled.toFixed(0)} s\n` +
        `${save("rewind", result)}\n`,
    );
    if (Number(row!.n) < read) throw new Error(`${read} events were read again, and ${row!.n} are stored`);
  } finally {
    await Promise.allSettled([admin.close(), clickhouse.close()]);
    await world.stop();
  }
};

// Measures the cost of surviving a power cut: the log with a sync for each send and partition, and
// the spool of an edge, whose appends share a sync.
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { startStack } from "../infra/embedded/supervisor.ts";
import { openKafka } from "../infra/kafka/kafka.ts";
import { table } from "../infra/runtime/output.ts";
import { openSpool } from "../infra/spool/spool.ts";
import type { OutputMessage } from "../stream/messages.ts";
import { cpuUsOf, quantile, save } from "./figures.ts";

/** The approximate length of an event of the first chain (docs/performance.md). */
const EVENT_BYTES = 480;
const DEVICES = 5_000;
const PARTITIONS = 12;
/**
 * `callers` calls at once with `batch` events each: a sender of large batches, some of middle size,
 * and many of single events.
 */
const shapes = [
  { batch: 1_000, callers: 3 },
  { batch: 100, callers: 16 },
  { batch: 1, callers: 64 },
] as const;

interface Measured {
  readonly what: string;
  readonly batch: number;
  readonly callers: number;
  readonly eventsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly ourUs: number;
  readonly brokerUs: number | null;
  /**
   * Syncs of the spool; appends that come together share one. Syncs of the log cannot be counted
   * from here.
   */
  readonly syncsPerSecond: number | null;
}

const messages = (topic: string, count: number): readonly OutputMessage[] =>
  Array.from({ length: count }, () => ({
    topic,
    key: `1:device-${Math.floor(Math.random() * DEVICES)}`,
    value: Buffer.alloc(EVENT_BYTES, "x"),
  }));

const measure = async (
  what: string,
  shape: (typeof shapes)[number],
  seconds: number,
  store: (count: number) => Promise<void>,
  counted: { readonly brokerUs?: () => number; readonly syncs?: () => number },
): Promise<Measured> => {
  const times: number[] = [];
  let events = 0;
  const load = async (forMs: number): Promise<void> => {
    const end = performance.now() + forMs;
    const caller = async (): Promise<void> => {
      while (performance.now() < end) {
        const began = performance.now();
        await store(shape.batch);
        times.push(performance.now() - began);
        events += shape.batch;
      }
    };
    await Promise.all(Array.from({ length: shape.callers }, caller));
  };
  await load(1_000);
  times.length = 0;
  events = 0;
  const [cpu, broker, syncs, began] = [
    process.cpuUsage(),
    counted.brokerUs?.() ?? 0,
    counted.syncs?.() ?? 0,
    performance.now(),
  ];
  await load(seconds * 1_000);
  const took = (performance.now() - began) / 1_000;
  const { user, system } = process.cpuUsage(cpu);
  return {
    what,
    ...shape,
    eventsPerSecond: events / took,
    p50Ms: quantile(times, 0.5),
    p99Ms: quantile(times, 0.99),
    ourUs: (user + system) / events,
    brokerUs: counted.brokerUs === undefined ? null : (counted.brokerUs() - broker) / events,
    syncsPerSecond: counted.syncs === undefined ? null : (counted.syncs() - syncs) / took,
  };
};

/**
 * Our own client cannot set this, because operators do it with Kafka's tools. A separate process
 * does it here, because this one has a patched kafkajs.
 */
const makeTopic = async (brokers: string, topic: string, setting: string): Promise<void> => {
  const [name, value] = setting.split("=");
  const configEntries = value === undefined ? [] : [{ name, value }];
  const order = {
    topics: [{ topic, numPartitions: PARTITIONS, replicationFactor: 1, configEntries }],
    waitForLeaders: false,
  };
  const script = `import { Kafka } from "kafkajs";
    const admin = new Kafka({ clientId: "bench", brokers: [${JSON.stringify(brokers)}], logLevel: 0 }).admin();
    await admin.connect(); await admin.createTopics(${JSON.stringify(order)}); await admin.disconnect();`;
  await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script]);
};

const measureLog = async (seconds: number): Promise<Measured[]> => {
  const home = mkdtempSync(join(tmpdir(), "tributary-bench-"));
  const stack = await startStack({
    home,
    services: ["kafka"],
    onEvent: ({ text }) => process.stderr.write(`${text}\n`),
  });
  const found: Measured[] = [];
  try {
    const brokers = stack.env.KAFKA_BROKERS!;
    const settings = ["page cache (default)", "flush.messages=1"];
    for (const [n, setting] of settings.entries()) await makeTopic(brokers, `durable.${n}`, setting);
    const producer = openKafka({ brokers, clientId: "bench" }).producer({ publishDeadlineMs: 60_000 });
    const pid = stack.pid("kafka")!;
    for (const shape of shapes)
      for (const [n, setting] of settings.entries())
        found.push(
          await measure(
            `log, ${setting}`,
            shape,
            seconds,
            (count) => producer.publish(messages(`durable.${n}`, count)),
            {
              brokerUs: () => cpuUsOf(pid),
            },
          ),
        );
    await producer.close();
  } finally {
    await stack.stop();
    rmSync(home, { recursive: true, force: true });
  }
  return found;
};

const measureSpool = async (
  seconds: number,
): Promise<{ appended: Measured[]; drainedPerSecond: number; drainUs: number }> => {
  const folder = mkdtempSync(join(tmpdir(), "tributary-spool-"));
  const appended: Measured[] = [];
  let drained = 0;
  let drainMs = 0;
  let drainCpu = 0;
  try {
    const spool = await openSpool({ folder, schemas: {}, maxMessages: 50_000_000, maxBytes: 20 * 1024 ** 3 });
    for (const shape of shapes) {
      const store = (count: number) => spool.append(messages("durable", count), "bench");
      appended.push(await measure("spool", shape, seconds, store, { syncs: () => spool.state().syncs }));
      const [began, cpu] = [performance.now(), process.cpuUsage()];
      for (let some = -1; some !== 0; drained += Math.max(0, some)) some = await spool.drain(async () => undefined);
      drainMs += performance.now() - began;
      const { user, system } = process.cpuUsage(cpu);
      drainCpu += user + system;
    }
    await spool.close();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return { appended, drainedPerSecond: (drained / drainMs) * 1_000, drainUs: drainCpu / drained };
};

/**
 * `--seconds` a measurement (10). "our us" is the CPU of this process: it makes the messages and
 * runs the client or the spool.
 */
export const run = async (options: { seconds?: string }): Promise<void> => {
  const seconds = Number(options.seconds ?? 10);
  const { appended, drainedPerSecond, drainUs } = await measureSpool(seconds);
  const all = [...(await measureLog(seconds)), ...appended];
  const rows = all.map((one) => [
    one.what,
    one.batch,
    one.callers,
    Math.round(one.eventsPerSecond),
    one.p50Ms.toFixed(1),
    one.p99Ms.toFixed(1),
    one.ourUs.toFixed(1),
    one.brokerUs?.toFixed(1) ?? null,
    one.syncsPerSecond === null ? null : Math.round(one.syncsPerSecond),
  ]);
  process.stdout.write(
    `${table(["where", "batch", "callers", "events/s", "p50 ms", "p99 ms", "our us", "broker us", "syncs/s"], rows)}\n`,
  );
  process.stdout.write(
    `drained from the spool: ${Math.round(drainedPerSecond)} events/s, ${drainUs.toFixed(1)} us ` +
      "each, without what sending costs\n",
  );
  process.stdout.write(`${save("durable", { seconds, all, drainedPerSecond, drainUs })}\n`);
};

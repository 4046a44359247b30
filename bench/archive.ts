// Measures the cost of archiving an event, and how fast a window comes back: by a restore, and as
// memory that Redis lost.
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Redis } from "ioredis";
import type { App } from "../infra/embedded/supervisor.ts";
import { openKafka } from "../infra/kafka/kafka.ts";
import { openObjects } from "../infra/objects/open.ts";
import { table } from "../infra/runtime/output.ts";
import { archiving } from "../modules/log/groups/archive-group.ts";
import { groupNamed } from "../modules/log/groups/hosting.ts";
import { apps } from "../modules/running/installation/product.ts";
import { checkArchive } from "../sinks/archive/check.ts";
import type { OutputMessage } from "../stream/messages.ts";
import { topics } from "../topics.ts";
import { cpuUsOf, quantile, rssMiBOf, save } from "./figures.ts";
import { generate, openWorld, type World } from "./world.ts";

const POLL_MS = 100;
const CHAIN = groupNamed("enrich");

/** During this time V8 compiles, and every partition gets its first file. */
const WARM_UP_SECONDS = 60;
const SENDS_A_SECOND = 4;
const SAMPLE_RECORDS = 24_000;

const workerOf = (name: string): App => apps.find((app) => app.name === name)!;
const archiveAlone = (): App => ({ ...workerOf("worker-money"), name: "archive", args: ["archive"] });

/** CPU nanoseconds of all live threads of a process, finer than the ticks of /proc/pid/stat. */
const cpuNsOf = (pid: number): number =>
  readdirSync(`/proc/${pid}/task`).reduce(
    (sum, thread) => sum + Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]),
    0,
  );

/**
 * Measures a worker that only hosts the archive, second by second, while the log grows at `rate`.
 */
const steady = async (world: World, rate: number, seconds: number): Promise<void> => {
  const { stack } = world;
  const kafka = openKafka({ brokers: stack.env.KAFKA_BROKERS!, clientId: "bench" });
  // Repeated records within a block would compress to nothing, so the sample is large.
  for (let [events, firstSerial] = [0, 0]; events < SAMPLE_RECORDS; ) {
    const filled = await generate({ ...fillOf(world), seconds: 1, rate: 0, firstSerial });
    events += filled.accepted;
    firstSerial = filled.lastSerial;
  }
  const sample: OutputMessage[] = [];
  // Reads the same number from each partition: each closes its files at its own seconds of a
  // minute, and none may be empty.
  const left = new Map<number, number>();
  await kafka.replay({
    topics: [archiving.topic],
    onBatch: ({ topic, partition, messages }) => {
      const wanted = left.get(partition) ?? SAMPLE_RECORDS / topics.eventsRaw.partitions;
      const taken = messages.slice(0, wanted);
      left.set(partition, wanted - taken.length);
      for (const { key, value } of taken) sample.push({ topic, key: Buffer.from(key!), value: Buffer.from(value!) });
    },
  });
  await stack.start(archiveAlone());
  const pid = stack.pid("archive")!;
  const producer = kafka.producer();
  const started = performance.now();
  const [perSecond, cpuMs, rss]: [number[], number[], number[]] = [[], [], []];
  let sent = 0;
  let before = { at: started, ns: cpuNsOf(pid), sent };
  for (let turn = 1; turn <= (WARM_UP_SECONDS + seconds) * SENDS_A_SECOND; turn++) {
    const due = Math.round((turn * rate) / SENDS_A_SECOND);
    const messages = Array.from({ length: due - sent }, (_, n) => sample[(sent + n) % sample.length]!);
    await producer.send(messages);
    sent = due;
    const wait = started + (turn * 1_000) / SENDS_A_SECOND - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    if (turn % SENDS_A_SECOND !== 0) continue;
    const now = { at: performance.now(), ns: cpuNsOf(pid), sent };
    if (turn > WARM_UP_SECONDS * SENDS_A_SECOND) {
      cpuMs.push((now.ns - before.ns) / 1e6 / ((now.at - before.at) / 1_000));
      perSecond.push((now.sent - before.sent) / ((now.at - before.at) / 1_000));
      rss.push(rssMiBOf(pid));
    }
    before = now;
  }
  await producer.close();
  await checked(world);
  const mean = cpuMs.reduce((sum, ms) => sum + ms, 0) / cpuMs.length;
  const reached = perSecond.reduce((sum, events) => sum + events, 0) / perSecond.length;
  const row = [
    Math.round(reached),
    ((mean * 1_000) / reached).toFixed(2),
    mean.toFixed(1),
    (quantile(cpuMs, 0.5) / mean).toFixed(2),
    (Math.max(...cpuMs) / mean).toFixed(2),
    cpuMs.filter((ms) => ms > 2 * mean).length,
    Math.round(Math.max(...rss)),
  ];
  const head = ["events/s", "us/event", "CPU ms a second", "median x", "highest x", "seconds over 2 x", "MiB"];
  process.stdout.write(`${table(head, [row])}\n`);
  process.stdout.write(`${save("archive-steady", { rate, seconds, row, cpuMs, rss })}\n`);
};

/** Figures of an archive with a gap would be useless. */
const checked = async ({ stack, home }: World): Promise<void> => {
  const admin = await openKafka({ brokers: stack.env.KAFKA_BROKERS!, clientId: "bench" }).admin();
  const objects = openObjects(pathToFileURL(join(home, "objects")).href);
  try {
    const { files, events, bytes, gaps, overlaps, damaged } = await checkArchive(objects, admin, archiving);
    const wrong = [...gaps, ...overlaps, ...damaged];
    if (wrong.length > 0) throw new Error(`the archive is not whole: ${JSON.stringify(wrong.slice(0, 3))}`);
    process.stdout.write(
      `${files} files are whole: ${events} events, ${Math.round(bytes / events)} bytes each as stored\n`,
    );
  } finally {
    await Promise.allSettled([admin.close(), objects.close()]);
  }
};

const fillOf = (world: World) => ({
  url: world.stack.run.apps.ingest!.url,
  path: "/ingest/batch",
  tokens: world.tokens,
  clientId: world.clientId,
  eventsPerBody: 1_000,
  purchases: 0.02,
  inFlight: 2,
  seed: 13,
});

/**
 * With `--rate` events a second: the cost of a worker in each of `--seconds` (120), after a minute
 * that is not counted. Without it: `--seconds` of filling the log (20). Each part is timed from the
 * moment that its process is ready until its lag is 0.
 */
export const run = async (options: { seconds?: string; rate?: string }): Promise<void> => {
  if (options.rate !== undefined) {
    const world = await openWorld([workerOf("ingest")]);
    try {
      await steady(world, Number(options.rate), Number(options.seconds ?? 120));
    } finally {
      await world.stop();
    }
    return;
  }
  const chain = workerOf("worker-chain");
  const world = await openWorld([workerOf("ingest")]);
  const { stack } = world;
  const admin = await openKafka({ brokers: stack.env.KAFKA_BROKERS!, clientId: "bench" }).admin();
  const waiting = async (group: string) =>
    (await admin.lag(group, [archiving.topic])).reduce((sum, { lag }) => sum + lag, 0);
  const fill = (seconds: number, firstSerial: number) => generate({ ...fillOf(world), seconds, rate: 0, firstSerial });
  const rows: (string | number)[][] = [];
  const timed = async (what: string, app: string, events: number, done: () => Promise<boolean>): Promise<void> => {
    const started = performance.now();
    // The cost of starting is left out: code is compiled once, and events come for years.
    const cpuBefore = cpuUsOf(stack.pid(app)!);
    let rss = 0;
    while (!(await done())) {
      rss = Math.max(rss, rssMiBOf(stack.pid(app)!));
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    const us = (cpuUsOf(stack.pid(app)!) - cpuBefore) / events;
    rows.push([
      what,
      events,
      Math.round(events / ((performance.now() - started) / 1_000)),
      us.toFixed(1),
      Math.round(rss),
    ]);
    await stack.stop(app);
  };
  const restored = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const window = ["--from", "-2h", "--to", new Date().toISOString(), "--yes"];
      const env = { ...process.env, ...stack.env, TRIBUTARY_HOME: stack.home };
      const child = spawn(
        process.execPath,
        [new URL("../apps/cli/main.js", import.meta.url).pathname, "restore", ...window],
        { env },
      );
      child.once("exit", (code) => (code === 0 ? resolve() : reject(new Error(`restore ended with ${code}`))));
    });
  try {
    const filled = await fill(Number(options.seconds ?? 20), 0);
    const events = (await admin.watermarks(archiving.topic)).reduce((sum, { high }) => sum + high, 0);
    await stack.start(archiveAlone());
    await timed("archived", "archive", events, async () => (await waiting(archiving.group)) === 0);
    const started = performance.now();
    await restored();
    rows.push([
      "restored, verified before",
      events,
      Math.round(events / ((performance.now() - started) / 1_000)),
      "-",
      "-",
    ]);
    await stack.start(chain);
    await timed("through the chain", "worker-chain", events, async () => (await waiting(CHAIN)) === 0);
    const redis = new Redis(stack.env.REDIS_URL!);
    await redis.flushall();
    redis.disconnect();
    const ends = await admin.watermarks(archiving.topic);
    await admin.deleteRecords(archiving.topic, new Map(ends.map(({ partition, high }) => [partition, high])));
    await fill(1, filled.lastSerial);
    await stack.start(chain);
    await timed("relearnt from the archive", "worker-chain", events, async () => (await waiting(CHAIN)) === 0);
  } finally {
    await admin.close();
    await world.stop();
  }
  process.stdout.write(`${table(["what", "events", "events/s", "CPU us/event", "MiB"], rows)}\n`);
  process.stdout.write(`${save("archive", { rows })}\n`);
};

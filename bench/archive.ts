// What archiving an event costs, and how fast a window comes back: by a restore, and as memory that
// Redis has lost.
import { spawn } from "node:child_process";
import { Redis } from "ioredis";
import { openKafka } from "../infra/kafka/kafka.ts";
import { table } from "../infra/runtime/output.ts";
import { archiving } from "../modules/groups/archiving.ts";
import { groupNamed } from "../modules/groups/hosting.ts";
import { apps } from "../modules/installation/product.ts";
import { circumstances, cpuUsOf, rssMiBOf, save } from "./figures.ts";
import { generate, openWorld } from "./world.ts";

const POLL_MS = 100;
const CHAIN = groupNamed("enrich");

/**
 * `--seconds` of filling the log (20). Each part is timed from its start to lag 0, from the moment
 * that its process is ready.
 */
export const run = async (options: { seconds?: string }): Promise<void> => {
  const [ingest, chain, money] = ["ingest", "worker-chain", "worker-money"].map(
    (name) => apps.find((app) => app.name === name)!,
  );
  const world = await openWorld([ingest!]);
  const { stack } = world;
  const admin = await openKafka({ brokers: stack.env.KAFKA_BROKERS!, clientId: "bench" }).admin();
  const waiting = async (group: string) =>
    (await admin.lag(group, [archiving.topic])).reduce((sum, { lag }) => sum + lag, 0);
  const fill = (seconds: number, firstSerial: number) =>
    generate({
      url: stack.run.apps.ingest!.url,
      path: "/ingest/batch",
      tokens: world.tokens,
      clientId: world.clientId,
      eventsPerBody: 1_000,
      purchases: 0.02,
      seconds,
      rate: 0,
      inFlight: 2,
      firstSerial,
      seed: 13,
    });
  const rows: (string | number)[][] = [];
  const timed = async (what: string, app: string, events: number, done: () => Promise<boolean>): Promise<void> => {
    const started = performance.now();
    // Without what starting cost: code is compiled once, events come for years.
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
    await stack.start({ ...money!, name: "archive", args: ["archive"] });
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
    await stack.start(chain!);
    await timed("through the chain", "worker-chain", events, async () => (await waiting(CHAIN)) === 0);
    const redis = new Redis(stack.env.REDIS_URL!);
    await redis.flushall();
    redis.disconnect();
    const ends = await admin.watermarks(archiving.topic);
    await admin.deleteRecords(archiving.topic, new Map(ends.map(({ partition, high }) => [partition, high])));
    await fill(1, filled.lastSerial);
    await stack.start(chain!);
    await timed("relearnt from the archive", "worker-chain", events, async () => (await waiting(CHAIN)) === 0);
  } finally {
    await admin.close();
    await world.stop();
  }
  process.stdout.write(`${table(["what", "events", "events/s", "CPU us/event", "MiB"], rows)}\n`);
  process.stdout.write(`${save("archive", { ...circumstances(), rows })}\n`);
};

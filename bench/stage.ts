// Measures how fast the hosted chain (enrich, score, attribute) reads a full log: all events on one
// partition, as with one hot device, and spread over all.

import { openKafka } from "../infra/kafka/kafka.ts";
import { table } from "../infra/runtime/output.ts";
import { groupNamed } from "../modules/log/groups/hosting.ts";
import { apps } from "../modules/running/installation/product.ts";
import { cpuUsOf, save } from "./figures.ts";
import { MANY_DEVICES } from "./load/events.ts";
import { generate, openWorld } from "./world.ts";

const GROUP = groupNamed("enrich");
const POLL_MS = 100;

/**
 * `--seconds` of filling the log before each run (8). The worker starts when the log is full, and
 * is timed from its first commit until its lag is 0.
 */
export const run = async (options: { seconds?: string }): Promise<void> => {
  const seconds = Number(options.seconds ?? 8);
  const [ingest, chain] = ["ingest", "worker-chain"].map((name) => apps.find((app) => app.name === name)!);
  const world = await openWorld([ingest!]);
  const admin = await openKafka({ brokers: world.stack.env.KAFKA_BROKERS!, clientId: "bench" }).admin();
  const waiting = async () => {
    const ends = await admin.watermarks("events.raw");
    const committed = await admin.committed(GROUP, "events.raw");
    return ends.reduce((sum, { partition, high }) => sum + high - (committed.get(partition) ?? 0), 0);
  };
  const measured: object[] = [];
  const rows: (string | number)[][] = [];
  let serial = 0;
  try {
    for (const devices of [1, MANY_DEVICES]) {
      const filled = await generate({
        url: world.stack.run.apps.ingest!.url,
        path: "/ingest/batch",
        tokens: world.tokens,
        clientId: world.clientId,
        eventsPerBody: 10_000,
        purchases: 0.02,
        devices,
        seconds,
        rate: 0,
        inFlight: 2,
        firstSerial: serial,
        seed: 13,
      });
      serial = filled.lastSerial;
      await world.stack.start(chain!);
      const full = await waiting();
      const cpuBefore = cpuUsOf(world.stack.pid("worker-chain")!);
      const started = performance.now();
      while ((await waiting()) > 0) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      const took = (performance.now() - started) / 1_000;
      const us = (cpuUsOf(world.stack.pid("worker-chain")!) - cpuBefore) / full;
      measured.push({ devices, events: full, seconds: took, us });
      rows.push([devices === 1 ? "one partition" : "twelve partitions", full, Math.round(full / took), us.toFixed(1)]);
      await world.stack.stop("worker-chain");
    }
  } finally {
    await admin.close();
    await world.stop();
  }
  process.stdout.write(`${table(["events on", "events", "events/s", "worker us/event"], rows)}\n`);
  process.stdout.write(`${save("stage", { measured })}\n`);
};

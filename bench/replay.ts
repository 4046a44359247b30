// Measures how fast a window is written to the stores again beside the live rate, how much live
// traffic slows down, and whether the state stays the same.

import { type Clickhouse, openClickhouse } from "../infra/clickhouse/client.ts";
import { openKafka } from "../infra/kafka/kafka.ts";
import { openPool } from "../infra/postgres/sql.ts";
import { table } from "../infra/runtime/output.ts";
import { waitingRollups } from "../modules/figures/rollups/rollup-marks.ts";
import { groupNamed } from "../modules/log/groups/hosting.ts";
import { type Replay, requestReplay } from "../modules/log/replays/replays.ts";
import { awaitReplay, replayableSinks } from "../modules/log/replays/report.ts";
import { apps } from "../modules/running/installation/product.ts";
import { differingTables, stateHash } from "../modules/running/state-hash/state-hash.ts";
import { pipeline } from "../topology.ts";
import { cpuUsOf, save } from "./figures.ts";
import { generate, openWorld } from "./world.ts";

const EVENTS_PER_BODY = 1_000;
const HOUR_MS = 3_600_000;
/** The least time of live traffic that is measured. */
const LIVE_MS = 15_000;
const readers = pipeline.nodes.flatMap((node) =>
  node.is === "edge" || node.name === "archive" ? [] : [{ group: groupNamed(node.name), topic: node.from.name }],
);
const sinks = replayableSinks(pipeline).map(({ name }) => name);

/**
 * The time from received to stored of the events of a span. A replay that began before the span
 * writes none of them.
 */
const freshnessOf = async (clickhouse: Clickhouse, from: number, to: number) => {
  const answer = await clickhouse.query({
    query: `select count() as events,
  quantiles(0.5, 0.95)(dateDiff('millisecond', received_at, stored_at)) as ms
from events where received_at >= fromUnixTimestamp64Milli({from:Int64})
  and received_at < fromUnixTimestamp64Milli({to:Int64})`,
    query_params: { from, to },
    format: "JSONEachRow",
  });
  const [row] = await answer.json<{ events: string; ms: [number | null, number | null] }>();
  // Without events there are no quantiles.
  const [p50Ms, p95Ms] = row!.ms.map((ms) => ms ?? Number.NaN);
  return { events: Number(row!.events), p50Ms: p50Ms!, p95Ms: p95Ms! };
};

/**
 * Fills the log for `--seconds` as fast as it takes events (20). `--rate` is the rate of the live
 * traffic during the second replay (a third of the sustained rate).
 */
export const run = async (options: { seconds?: string; rate?: string }): Promise<void> => {
  const seconds = Number(options.seconds ?? 20);
  const world = await openWorld(apps.filter(({ name }) => name !== "api"));
  const { env } = world.stack;
  const admin = await openKafka({ brokers: env.KAFKA_BROKERS!, clientId: "bench" }).admin();
  const clickhouse = openClickhouse(env.CLICKHOUSE_URL!, { timeoutMs: 120_000 });
  const pool = openPool(env.POSTGRES_URL!, { timeoutMs: 120_000 });
  const quiet = async (): Promise<void> => {
    for (;;) {
      let lag = 0;
      for (const { group, topic } of readers)
        for (const one of await admin.lag(group, [topic])) lag += one.committed === null ? 0 : one.lag;
      if (lag === 0 && (await waitingRollups(pool)).count === 0) return;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  };
  const stored = async (): Promise<void> => {
    for (const reader of readers)
      while (
        (await admin.lag(reader.group, [reader.topic])).some(({ committed, lag }) => committed !== null && lag > 0)
      )
        await new Promise((resolve) => setTimeout(resolve, 100));
  };
  const replayed = async (): Promise<Replay & { readonly seconds: number; readonly events: number }> => {
    const { replay_id } = await requestReplay(pool, {
      actor: "bench",
      hours: 1,
      from: Date.now() - HOUR_MS,
      to: null,
      sinks,
    });
    const replay = await awaitReplay(pool, replay_id, { stalledMs: 120_000 });
    if (replay.state !== "done" || replay.errors.length > 0)
      throw new Error(`the replay ended ${replay.state}: ${JSON.stringify(replay.errors)}`);
    const events = replay
      .ranges!.filter(({ topic }) => topic === "events.attributed")
      .reduce((sum, { start, end }) => sum + end - start, 0);
    return { ...replay, events, seconds: (replay.ended_at! - replay.started_at!) / 1_000 };
  };
  const order = {
    url: world.stack.run.apps.ingest!.url,
    path: "/ingest/batch",
    tokens: world.tokens,
    clientId: world.clientId,
    eventsPerBody: EVENTS_PER_BODY,
    purchases: 0.02,
    inFlight: 4,
    seed: 17,
  };
  try {
    const filling = performance.now();
    const filled = await generate({ ...order, seconds, rate: 0, firstSerial: 0 });
    await stored();
    const sustained = filled.accepted / ((performance.now() - filling) / 1_000);
    await quiet();
    const before = await stateHash(pool, clickhouse);
    const names = ["keeper", "clickhouse", "kafka", "postgres", "redis"];
    const cpuBefore = new Map(names.map((name) => [name, cpuUsOf(world.stack.pid(name)!)]));
    const alone = await replayed();
    const cpu = new Map(
      names.map((name) => [name, (cpuUsOf(world.stack.pid(name)!) - cpuBefore.get(name)!) / alone.events]),
    );
    await quiet();
    const after = await stateHash(pool, clickhouse);
    const changed = differingTables(before, after);
    const speed = alone.events / alone.seconds;

    const rate = Number(options.rate ?? Math.round(sustained / 3));
    const live = async (work: () => Promise<unknown>, firstSerial: number) => {
      let isOver = false;
      const sending = (async () => {
        let serial = firstSerial;
        while (!isOver) serial = (await generate({ ...order, seconds: 5, rate, firstSerial: serial })).lastSerial;
        return serial;
      })();
      await new Promise((resolve) => setTimeout(resolve, 6_000));
      const from = Date.now();
      await work();
      const to = Date.now();
      isOver = true;
      const lastSerial = await sending;
      await stored();
      return { ...(await freshnessOf(clickhouse, from, to)), lastSerial };
    };
    const without = await live(() => new Promise((resolve) => setTimeout(resolve, LIVE_MS)), filled.lastSerial);
    let under: Awaited<ReturnType<typeof replayed>> | undefined;
    const beside = await live(async () => {
      const end = performance.now() + LIVE_MS;
      do under = await replayed();
      while (performance.now() < end);
    }, without.lastSerial);
    process.stdout.write(
      `${table(
        ["what", "events", "events/s", "beside the sustained rate"],
        [
          ["sustained live, edge to all stores", filled.accepted, Math.round(sustained), "1.0"],
          ["replay, nothing beside it", alone.events, Math.round(speed), (speed / sustained).toFixed(1)],
          [
            `replay, live at ${rate}/s beside it`,
            under!.events,
            Math.round(under!.events / under!.seconds),
            (under!.events / under!.seconds / sustained).toFixed(1),
          ],
        ],
      )}\n`,
    );
    process.stdout.write(
      "\nCPU of the replay alone, us an event: " +
        `${[...cpu].map(([name, us]) => `${name} ${us.toFixed(1)}`).join(", ")}\n`,
    );
    process.stdout.write(
      `received to stored at ${rate}/s: p50 ${without.p50Ms.toFixed(0)} ms, p95 ` +
        `${without.p95Ms.toFixed(0)} ms (${without.events} events); ` +
        `during the replay p50 ${beside.p50Ms.toFixed(0)} ms, p95 ${beside.p95Ms.toFixed(0)} ms ` +
        `(${beside.events} events): ${(beside.p95Ms / without.p95Ms).toFixed(1)} times\n` +
        "state after the replay: " +
        `${changed.length === 0 ? "the same" : `differs in ${changed.join(", ")}`} ` +
        `(${after.tables.reduce((sum, { rows }) => sum + rows, 0)} rows)\n`,
    );
    const speeds = { seconds, rate, sustained, speed, cpu: Object.fromEntries(cpu) };
    const states = { without, beside, underSeconds: under!.seconds, changed };
    process.stdout.write(`${save("replay", { ...speeds, ...states })}\n`);
  } finally {
    await Promise.allSettled([admin.close(), clickhouse.close(), pool.end()]);
    await world.stop();
  }
};

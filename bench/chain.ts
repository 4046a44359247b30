// Measures the whole pipeline at a steady rate, from the edge to ClickHouse and the ledger: whether
// lag grows, how old an event is when it can be read, and the cost of each process.

import { openClickhouse } from "../infra/clickhouse/client.ts";
import { scopeOf } from "../infra/clickhouse/query.ts";
import { openKafka } from "../infra/kafka/kafka.ts";
import { table } from "../infra/runtime/output.ts";
import { groupNamed } from "../modules/log/groups/hosting.ts";
import { apps } from "../modules/running/installation/product.ts";
import { eventCounts, freshness } from "../sinks/analytics/reads.ts";
import { writesRows } from "../stream/flow.ts";
import { pipeline } from "../topology.ts";
import { cpuUsOf, quantile, rssMiBOf, save } from "./figures.ts";
import { footprintOf, perEvent } from "./load/footprint.ts";
import { generate, openWorld } from "./world.ts";

/**
 * After this time the first lags have settled. The JVM compiles for another minute, and an event
 * costs 8 us more meanwhile.
 */
const WARM_UP_SECONDS = 10;
const EVENTS_PER_BODY = 1_000;
/**
 * The interval at which a worker reads its own lag. A sample is 45 requests, which the broker pays
 * for: once a second they were half of all its answers.
 */
const SAMPLE_MS = 5_000;

/** Excludes the copy of the log, which intentionally waits until its next file is full. */
const readers = pipeline.nodes.flatMap((node) =>
  node.is === "edge" || (node.is === "sink" && !writesRows(node))
    ? []
    : [{ group: groupNamed(node.name), topic: node.from.name }],
);

interface Options {
  readonly seconds?: string;
  readonly rate?: string;
  readonly warm?: string;
  readonly brokers?: string;
}

/**
 * `--rate` events a second (10,000), measured for `--seconds` (60) after `--warm` seconds (10);
 * `--brokers 3` keeps three copies of each record.
 */
export const run = async (options: Options): Promise<void> => {
  const seconds = Number(options.seconds ?? 60);
  const rate = Number(options.rate ?? 10_000);
  const warmSeconds = Number(options.warm ?? WARM_UP_SECONDS);
  const world = await openWorld(apps, { brokers: options.brokers === "3" ? 3 : 1 });
  const admin = await openKafka({ brokers: world.stack.env.KAFKA_BROKERS!, clientId: "bench" }).admin();
  const clickhouse = openClickhouse(world.stack.env.CLICKHOUSE_URL!);
  const scope = scopeOf(world.clientId);
  const storedEvents = async () => (await eventCounts(clickhouse, scope))[0]?.events ?? 0;
  try {
    const order = {
      url: world.stack.run.apps.ingest!.url,
      path: "/ingest/batch",
      tokens: world.tokens,
      clientId: world.clientId,
      eventsPerBody: EVENTS_PER_BODY,
      purchases: 0.02,
      rate,
      inFlight: 4,
      seed: 11,
    };
    const warm = await generate({ ...order, seconds: warmSeconds, firstSerial: 0 });
    const names = [...Object.keys(world.stack.run.apps), ...Object.keys(world.stack.run.services)];
    const pids = new Map(
      names.flatMap((name) => (world.stack.pid(name) === undefined ? [] : [[name, world.stack.pid(name)!] as const])),
    );
    const cpuBefore = new Map([...pids].map(([name, pid]) => [name, cpuUsOf(pid)]));
    const footprintBefore = await footprintOf(world);
    const measuredFrom = Date.now();

    const lags: { at: number; total: number }[] = [];
    const started = performance.now();
    let isOver = false;
    const sampling = (async () => {
      while (!isOver) {
        let total = 0;
        for (const { group, topic } of readers)
          for (const { committed, lag } of await admin.lag(group, [topic])) total += committed === null ? 0 : lag;
        lags.push({ at: performance.now() - started, total });
        await new Promise((resolve) => setTimeout(resolve, SAMPLE_MS));
      }
    })();
    const result = await generate({ ...order, seconds, firstSerial: warm.lastSerial });
    isOver = true;
    await sampling;
    const cpu = new Map(
      [...pids].map(([name, pid]) => [name, (cpuUsOf(pid) - cpuBefore.get(name)!) / result.accepted]),
    );

    const expected = warm.accepted + result.accepted;
    const drainStarted = performance.now();
    while ((await storedEvents()) < expected && performance.now() - drainStarted < 60_000)
      await new Promise((resolve) => setTimeout(resolve, 500));
    const stored = await storedEvents();
    const footprint = perEvent(footprintBefore, await footprintOf(world), result.accepted);

    const half = (from: number, to: number) =>
      quantile(
        lags.filter(({ at }) => at >= from && at < to).map(({ total }) => total),
        0.5,
      );
    const lagStart = half(0, (seconds * 1_000) / 3);
    const lagEnd = half((seconds * 2_000) / 3, seconds * 1_000);
    const { p50_ms, p99_ms } = await freshness(clickhouse, scope, measuredFrom);
    const [p50, p99] = [(p50_ms ?? Number.NaN) / 1_000, (p99_ms ?? Number.NaN) / 1_000];
    const rssMiB = new Map([...pids].map(([name, pid]) => [name, rssMiBOf(pid)]));
    const rows = [...cpu].map(([name, us]) => [name, us.toFixed(1), rssMiB.get(name)!.toFixed(0)]);
    const sum = [...cpu.values()].reduce((a, b) => a + b, result.cpuUsPerEvent);
    const totals = [
      ["generator", result.cpuUsPerEvent.toFixed(1), null],
      ["sum", sum.toFixed(1), null],
    ];
    process.stdout.write(`${table(["process", "us/event", "RSS MiB"], [...rows, ...totals])}\n\n`);
    process.stdout.write(
      `${Math.round(result.accepted / result.seconds)} events/s for ${seconds} s, ` +
        `${result.refusedBodies} bodies refused; ${stored} of ${expected} stored\n` +
        `request p50 ${result.p50Ms.toFixed(0)} ms, p99 ${result.p99Ms.toFixed(0)} ms; received to ` +
        `stored p50 ${p50.toFixed(2)} s, p99 ${p99.toFixed(2)} s\n` +
        `lag over all groups: median ${lagStart} in the first third, ${lagEnd} in the last, highest ` +
        `${Math.max(...lags.map(({ total }) => total))}\n`,
    );
    const held = Object.entries(footprint).map(([name, value]) => [name, value.toPrecision(3)]);
    process.stdout.write(`\n${table(["of the stores", "an event"], held)}\n`);
    const measured = {
      rate,
      seconds,
      warmSeconds,
      brokers: options.brokers ?? "1",
      result,
      cpu: Object.fromEntries(cpu),
      rssMiB: Object.fromEntries(rssMiB),
      footprint,
      p50,
      p99,
      lags,
      stored,
      expected,
    };
    process.stdout.write(`${save("chain", measured)}\n`);
  } finally {
    await Promise.allSettled([admin.close(), clickhouse.close()]);
    await world.stop();
  }
};

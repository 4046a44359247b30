// Measures the cost of recomputing one touched minute, and its hour as a whole, by the number of
// events in the hour. It shows the size at which rollups fall behind.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Clickhouse, openClickhouse } from "../infra/clickhouse/client.ts";
import { migrate } from "../infra/clickhouse/migrate.ts";
import { startStack } from "../infra/embedded/supervisor.ts";
import { table } from "../infra/runtime/output.ts";
import type { RollupMark } from "../modules/figures/rollups/rollup-marks.ts";
import { computeHours, computeMinutes } from "../modules/figures/rollups/rollups.ts";
import { eventRows } from "../sinks/analytics/rows.ts";
import { events as eventsTable } from "../sinks/analytics/table.ts";
import { clickhouseStore } from "../sinks/stores/clickhouse.ts";
import { attributed, clickCredit, noon, recorded } from "../tests/support/builders.ts";
import { topics } from "../topics.ts";
import { cpuUsOf, median, save } from "./figures.ts";

// The largest size is a client that sends a million events a minute for three minutes. More takes
// time and shows nothing new.
const SIZES = [10_000, 100_000, 1_000_000, 3_000_000];
const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
/**
 * Events written by the real mapping; the server makes the rest of the hour by copying them with
 * other ids and times.
 */
const MAPPED = 10_000;

const fill = async (clickhouse: Clickhouse, client: number, events: number): Promise<void> => {
  const rows = Array.from({ length: MAPPED }, (_, n) =>
    attributed(
      {
        client_id: client,
        event_id: `00000000-0000-8000-8000-${n.toString(16).padStart(12, "0")}`,
        ts: noon + ((n * 7_919) % HOUR_MS),
        t: n % 50 === 0 ? "purchase" : n % 10 === 0 ? "click" : "page_view",
        source: n % 3 === 0 ? "pixel" : "batch",
        ua:
          "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) " +
          "Chrome/137.0.0.0 Safari/537.36",
      },
      {
        enrichment: {
          country: ["MX", "US", "CO", "ES", "AR"][n % 5]!,
          device: ["desktop", "mobile", "tablet"][n % 3]!,
        },
        ...(n % 4 === 0 ? { credit: clickCredit({ partner_id: 1 + (n % 20), campaign_id: 1 + (n % 20) }) } : {}),
      },
    ),
  ).flatMap((data) => eventRows(recorded(topics.eventsAttributed, data)));
  const store = clickhouseStore(clickhouse);
  await store.insert(eventsTable, rows, `bench/${client}`);
  for (let copies = 1; copies * MAPPED < events; copies *= 2)
    await clickhouse.command({
      query: `insert into events select * replace (generateUUIDv4() as event_id,
          fromUnixTimestamp64Milli(
            ${noon} + (toUnixTimestamp64Milli(ts) - ${noon} + ${copies} * 104729) % ${HOUR_MS}, 'UTC') as ts)
        from events where client_id = ${client} limit ${Math.min(copies * MAPPED, events - copies * MAPPED)}`,
    });
};

/** `--runs` computations of each kind (5); the median is printed. */
export const run = async (options: { runs?: string }): Promise<void> => {
  const runs = Number(options.runs ?? 5);
  const home = mkdtempSync(join(tmpdir(), "tributary-bench-"));
  const stack = await startStack({ home, services: ["clickhouse"] });
  const clickhouse = openClickhouse(stack.env.CLICKHOUSE_URL!, { timeoutMs: 120_000 });
  const result: object[] = [];
  const rows: (string | number)[][] = [];
  let sequence = 0n;
  try {
    await migrate(clickhouse);
    for (const [n, events] of SIZES.entries()) {
      const client = n + 1;
      await fill(clickhouse, client, events);
      const marked = (minutes: number): readonly RollupMark[] =>
        Array.from({ length: minutes }, (_, minute) => {
          sequence += 1n;
          return { client_id: client, minute: noon + minute * MINUTE_MS, sequence };
        });
      const measure = async (compute: () => Promise<void>) => {
        const ms: number[] = [];
        const before = cpuUsOf(stack.pid("clickhouse")!);
        for (let each = 0; each < runs; each += 1) {
          const startedAt = performance.now();
          await compute();
          ms.push(performance.now() - startedAt);
        }
        return { ms: median(ms), cpuMs: (cpuUsOf(stack.pid("clickhouse")!) - before) / 1_000 / runs };
      };
      const all = await measure(() => computeMinutes(clickhouse, marked(60)));
      const one = await measure(() => computeMinutes(clickhouse, marked(1)));
      const hour = await measure(async () => {
        sequence += 1n;
        await computeHours(clickhouse, [{ client_id: client, hour: noon - (noon % HOUR_MS), sequence }]);
      });
      rows.push([events, ...[one, all, hour].flatMap(({ ms, cpuMs }) => [ms.toFixed(0), cpuMs.toFixed(0)])]);
      result.push({ events, one, all, hour });
    }
    const headers = [
      "events in the hour",
      "one minute ms",
      "CPU ms",
      "60 minutes ms",
      "CPU ms",
      "the hour ms",
      "CPU ms",
    ];
    process.stdout.write(`${table(headers, rows)}\n`);
    process.stdout.write(`${save("rollups", { runs, result })}\n`);
  } finally {
    await clickhouse.close();
    await stack.stop();
    rmSync(home, { recursive: true, force: true });
  }
};

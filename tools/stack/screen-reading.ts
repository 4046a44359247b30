// The figures of the live screen: read from the log and the stores, and written as lines.
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { scopeOf } from "../../infra/clickhouse/query.ts";
import { type Admin, openKafka } from "../../infra/kafka/kafka.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { table } from "../../infra/runtime/output.ts";
import { type Amount, summary } from "../../modules/figures/reports/report.ts";
import { hostings } from "../../modules/log/groups/group-holds.ts";
import { hostsNow } from "../../modules/log/groups/hosts.ts";
import type { Demo } from "../../modules/running/installation/seed.ts";
import { eventCounts, freshness } from "../../sinks/analytics/reads.ts";
import { readersOf } from "../../stream/topology.ts";
import { pipeline } from "../../topology.ts";

/** One reading; the next one computes its rates from it. */
export interface ScreenReading {
  readonly at: number;
  /** Records of `events.raw`. */
  readonly high: number;
  /** Events in the table. */
  readonly stored: number;
  readonly text: string;
}
export interface Readings {
  /** `problem` is the last one of the demo traffic. */
  readonly read: (before: ScreenReading | undefined, problem: string | undefined) => Promise<ScreenReading>;
  readonly close: () => Promise<void>;
}
const FRESHNESS_WINDOW_MS = 60_000;
const seconds = (ms: number | null): string => (ms === null ? "-" : `${(ms / 1_000).toFixed(1)} s`);

/** The number of records that each hosted group has not read yet. */
const lagsOf = async (admin: Admin, pool: ReturnType<typeof openPool>): Promise<ScreenView["lags"]> => {
  const { describeGroups } = admin;
  const hosts = await hostsNow({ topology: pipeline, recorded: () => hostings(pool), describeGroups });
  const hosted = readersOf(pipeline)
    .map(hosts)
    .filter(({ group, isRecorded }, n, all) => isRecorded && n === all.findIndex((one) => one.group === group));
  return Promise.all(
    hosted.map(async ({ nodes, group, topic }) => ({
      name: hostName(nodes),
      lag: (await admin.lag(group, [topic])).reduce((sum, one) => sum + one.lag, 0),
    })),
  );
};

/** Opens separate connections to the stores. */
export const openReadings = async (env: Readonly<Record<string, string>>, demo: Demo): Promise<Readings> => {
  const clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
  const pool = openPool(env.POSTGRES_URL!, { name: "tributary-screen", max: 2 });
  const admin = await openKafka({
    brokers: env.KAFKA_BROKERS!,
    clientId: "tributary-screen",
    topicPrefix: env.KAFKA_TOPIC_PREFIX ?? "",
  }).admin();
  const clientIds = demo.clients.map(({ id }) => id);
  const slugOf = new Map(demo.clients.map(({ id, slug }) => [id, slug]));
  return {
    read: async (before, problem) => {
      const at = performance.now();
      const [counts, fresh, money, ends] = await Promise.all([
        eventCounts(clickhouse, scopeOf(...clientIds)),
        freshness(clickhouse, scopeOf(...clientIds), Date.now() - FRESHNESS_WINDOW_MS),
        summary(pool, clientIds),
        admin.watermarks("events.raw"),
      ]);
      const lags = await lagsOf(admin, pool);
      const high = ends.reduce((sum, end) => sum + end.high, 0);
      const stored = counts.reduce((sum, one) => sum + one.events, 0);
      const perSecond = (now: number, then: number | undefined) =>
        before === undefined
          ? "-"
          : String(Math.max(0, Math.round(((now - (then ?? now)) * 1_000) / (at - before.at))));
      const lines = shownLines({
        rates: { received: perSecond(high, before?.high), stored: perSecond(stored, before?.stored) },
        problem,
        fresh,
        lags,
        clients: money.clients.map(({ client_id, conversions, revenue, commission }) => ({
          ...{ slug: slugOf.get(client_id) ?? String(client_id), conversions, revenue, commission },
          events: counts.find((one) => one.client_id === client_id)?.events ?? 0,
        })),
        isBalanced: money.isBalanced,
      });
      return { at, high, stored, text: lines.join("\n") };
    },
    close: async () => void (await Promise.allSettled([admin.close(), clickhouse.close(), pool.end()])),
  };
};

interface ScreenView {
  readonly rates: { readonly received: string; readonly stored: string };
  readonly problem: string | undefined;
  readonly fresh: { readonly p50_ms: number | null; readonly p99_ms: number | null };
  readonly lags: readonly { readonly name: string; readonly lag: number }[];
  readonly clients: readonly {
    readonly slug: string;
    readonly events: number;
    readonly conversions: number;
    readonly revenue: readonly Amount[];
    readonly commission: readonly Amount[];
  }[];
  readonly isBalanced: boolean;
}

const NARROWEST = 80;

/** The name of a host on a narrow line: its first node and a count, as "analytics and 5 others". */
export const hostName = ([first = "", ...others]: readonly string[]): string =>
  others.length === 0 ? first : `${first} and ${others.length} other${others.length === 1 ? "" : "s"}`;

/** Wraps the parts into lines for the narrowest terminal. */
const wrapped = (start: string, parts: readonly string[]): readonly string[] => {
  const lines = [start];
  for (const [n, part] of parts.entries()) {
    const text = n === parts.length - 1 ? part : `${part},`;
    const longer = `${lines.at(-1)} ${text}`;
    if (longer.length < NARROWEST) lines[lines.length - 1] = longer;
    else lines.push(`  ${text}`);
  }
  return lines;
};

/**
 * One row for each currency, so that no amount is cut off; client and counts stand in the first.
 */
const rowsOf = ({ slug, events, conversions, revenue, commission }: ScreenView["clients"][number]) => {
  const currencies = [...new Set([...revenue, ...commission].map(({ currency }) => currency))];
  const of = (all: readonly Amount[], wanted: string | undefined): string | null => {
    const found = all.find(({ currency }) => currency === wanted);
    return found === undefined ? null : `${found.amount} ${found.currency}`;
  };
  return [currencies[0], ...currencies.slice(1)].map((currency, n) => [
    ...(n === 0 ? [slug, events, conversions] : ["", "", ""]),
    of(revenue, currency),
    of(commission, currency),
  ]);
};

/**
 * The figures as lines. `received` counts records of the log, with second copies; `events` counts
 * each event once, since the beginning.
 */
export const shownLines = ({ rates, problem, fresh, lags, clients, isBalanced }: ScreenView): readonly string[] => {
  const behind = lags.filter(({ lag }) => lag > 0).sort((a, b) => b.lag - a.lag);
  return [
    `received ${rates.received}/s, copies too   stored ${rates.stored}/s`,
    ...(problem === undefined ? [] : [`demo traffic: ${problem}`]),
    `received to stored, last minute: half within ${seconds(fresh.p50_ms)}, 99 % within ${seconds(fresh.p99_ms)}`,
    ...(behind.length === 0
      ? ["nothing waits"]
      : wrapped(
          "records that wait:",
          behind.map(({ name, lag }) => `${name} ${lag}`),
        )),
    "",
    ...table(["client", "events", "conversions", "revenue", "commission"], clients.flatMap(rowsOf)).split("\n"),
    "since the beginning; revenue: all sales; conversions, commission: credited ones",
    `ledger ${isBalanced ? "balances" : "DOES NOT BALANCE"}`,
  ];
};

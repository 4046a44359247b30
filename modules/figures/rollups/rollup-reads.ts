// Reads figures of a client from the rollups by day, hour or minute, for dashboards.

import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import {
  bind,
  type ClientScope,
  type Condition,
  cond,
  count,
  minor,
  readRows,
  scopeOf,
  text,
  unixMs,
} from "../../../infra/clickhouse/query.ts";
import { within as withTimeout } from "../../../infra/runtime/timing/time-limit.ts";
import type { UnixMs } from "../../../stream/flow.ts";

export type Grain = "minute" | "hour" | "day";
export interface Span {
  /** Start of the first bucket. */
  readonly from: UnixMs;
  /** Start of the first bucket after the span. */
  readonly to: UnixMs;
}

/**
 * Sums of the counts over the rows of a group. Revenue must not be added across currencies, so
 * group by `currency`. Counted clicks exclude repeats, which rows of minutes do not know.
 */
export const figures = {
  events: count("sum(events)"),
  clicks: count("sum(clicks)"),
  conversions: count("sum(conversions)"),
  unattributed: count("sum(unattributed)"),
  revenue_minor: minor("sum(revenue_minor)"),
  review: count("sum(review)"),
  rejected: count("sum(rejected)"),
  repeats: count("sum(repeats)"),
};

/** Selects the rows of one grain whose buckets begin within the span. */
export const within = (grain: Grain, { from, to }: Span) => [
  cond`grain = ${bind("String", grain)}`,
  cond`bucket >= toDateTime(intDiv(${bind("Int64", from)}, 1000), 'UTC')`,
  cond`bucket < toDateTime(intDiv(${bind("Int64", to)}, 1000), 'UTC')`,
];

/**
 * Returns the figures of each day of Mexico City (YYYY-MM-DD), by client and currency, oldest
 * first. Days without a count are absent.
 */
export const figuresByDay = (clickhouse: Clickhouse, scope: ClientScope, span: Span) =>
  readRows(clickhouse, scope, {
    from: "rollups",
    columns: {
      client_id: count("client_id"),
      day: text("toDate(bucket, 'America/Mexico_City')"),
      currency: text("currency"),
      ...figures,
    },
    where: [...within("day", span), cond`events > 0`],
    groupBy: ["client_id", "day", "currency"],
    orderBy: ["client_id", "day", "currency"],
  });

/** Minutes are kept for two days and days for ninety; older events are not searched for. */
const RECENT_DAYS = 2;
const KNOWN_DAYS = 90;
/** A first, cheap search: a client that sends now is found within these minutes. */
const NOW_MINUTES = 5;
const HOUR_SEC = 3_600;
const DAY_SEC = 24 * HOUR_SEC;
const since = (grain: Grain, seconds: number): Condition =>
  cond`grain = ${bind("String", grain)} and bucket >= now() - ${bind("UInt32", seconds)}`;

/**
 * Returns when the newest bucket with an event began, by client: searches the last minutes, then
 * the newest hour of two days, then the newest minute or day. A client with millions of events a
 * day has a thousand rows a minute, so it reads no more minutes than it needs.
 */
const newestBuckets = async (
  clickhouse: Clickhouse,
  clients: readonly number[],
  only: readonly Condition[],
): Promise<ReadonlyMap<number, UnixMs>> => {
  const newest = new Map<number, UnixMs>();
  const ask = async (among: readonly number[], where: readonly Condition[]): Promise<ReadonlyMap<number, UnixMs>> => {
    if (among.length === 0) return new Map();
    const rows = await readRows(clickhouse, scopeOf(...among), {
      from: "rollups",
      columns: { client_id: count("client_id"), newest: count("toUnixTimestamp(max(bucket))") },
      where: [...where, ...only, cond`events > 0`],
      groupBy: ["client_id"],
    });
    return new Map(rows.map((row) => [row.client_id, row.newest * 1_000]));
  };
  const missing = (): readonly number[] => clients.filter((id) => !newest.has(id));
  const keep = (found: ReadonlyMap<number, UnixMs>): void => {
    for (const [id, at] of found) newest.set(id, at);
  };
  const recent = since("minute", RECENT_DAYS * DAY_SEC);
  keep(await ask(missing(), [since("minute", NOW_MINUTES * 60)]));
  const hours = await ask(missing(), [since("hour", RECENT_DAYS * DAY_SEC + HOUR_SEC)]);
  for (const hour of new Set(hours.values())) {
    const ofHour = { from: hour, to: hour + HOUR_SEC * 1_000 };
    keep(
      await ask(
        [...hours].flatMap(([id, at]) => (at === hour ? [id] : [])),
        [...within("minute", ofHour), recent],
      ),
    );
  }
  keep(await ask(missing(), [recent]));
  keep(await ask(missing(), [since("day", KNOWN_DAYS * DAY_SEC)]));
  return newest;
};

/**
 * Returns when the newest minute with an event of each client began, or the newest day when that is
 * more than two days ago; clients without events for 90 days are absent. Throws when the query
 * takes longer than `mostMs`.
 */
export const newestEvents = async (
  clickhouse: Clickhouse,
  clients: readonly number[],
  mostMs: number,
): Promise<ReadonlyMap<number, UnixMs>> =>
  withTimeout(mostMs, newestBuckets(clickhouse, clients, []), "the newest events are not known in time");

export interface Activity {
  readonly events_last_hour: number;
  /** When its newest minute or day began; null: none for 90 days. */
  readonly last_seen_at: UnixMs | null;
}

/**
 * Returns the activity of one source of a client. Throws when the query takes longer than `mostMs`.
 */
export const activityOf = async (
  clickhouse: Clickhouse,
  clientId: number,
  source: string,
  mostMs: number,
): Promise<Activity> => {
  const isOfSource = cond`source = ${bind("String", source)}`;
  const lastHour = readRows(clickhouse, scopeOf(clientId), {
    from: "rollups",
    columns: { events: count("sum(events)") },
    where: [cond`grain = 'minute' and bucket > now() - interval 60 minute`, isOfSource],
  });
  const asked = Promise.all([lastHour, newestBuckets(clickhouse, [clientId], [isOfSource])]);
  const [[row], newest] = await withTimeout(mostMs, asked, "what the source has sent is not known in time");
  return { events_last_hour: row?.events ?? 0, last_seen_at: newest.get(clientId) ?? null };
};

/** What a client sent in the last week. */
export interface Week {
  /** Those of the asked types that came, from any source. */
  readonly types: ReadonlySet<string>;
  /** Events of every source but the pixel and tracking links. */
  readonly fromServers: number;
}

/**
 * Looks for events of these types and for events of servers in the last week. Throws when the
 * queries take longer than `mostMs`.
 */
export const weekOf = async (
  clickhouse: Clickhouse,
  { clientId, types }: { readonly clientId: number; readonly types: readonly string[] },
  mostMs: number,
): Promise<Week> => {
  const scope = scopeOf(clientId);
  const within = cond`grain = 'day' and bucket >= now() - interval 8 day and events > 0`;
  const asked = Promise.all([
    readRows(clickhouse, scope, {
      from: "rollups",
      columns: { type: text("event_type") },
      where: [within, cond`event_type in ${bind("Array(String)", types)}`],
      groupBy: ["type"],
    }),
    readRows(clickhouse, scope, {
      from: "rollups",
      columns: { events: count("sum(events)") },
      where: [within, cond`source not in ('pixel', 'link')`],
    }),
  ]);
  const [found, [row]] = await withTimeout(mostMs, asked, "the events of the week are not known in time");
  return { types: new Set(found.map(({ type }) => type)), fromServers: row?.events ?? 0 };
};

/** Counts the events of each of these hours; hours without one are absent. */
export const eventsOf = async (
  clickhouse: Clickhouse,
  hours: readonly { readonly client_id: number; readonly hour: UnixMs }[],
): Promise<readonly { readonly client_id: number; readonly hour: UnixMs; readonly events: number }[]> => {
  if (hours.length === 0) return [];
  const known = hours.map(({ client_id, hour }) => `(${client_id}, ${hour / 1_000})`);
  const rows = await readRows(clickhouse, scopeOf(...new Set(hours.map(({ client_id }) => client_id))), {
    from: "rollups",
    columns: {
      client_id: count("client_id"),
      hour: unixMs("toDateTime64(bucket, 3)"),
      events: count("sum(events)"),
    },
    where: [
      cond`grain = 'hour'`,
      cond`(client_id, toUnixTimestamp(bucket)) in ${bind("Array(Tuple(UInt32, UInt32))", `[${known.join(", ")}]`)}`,
    ],
    groupBy: ["client_id", "hour"],
  });
  return rows;
};

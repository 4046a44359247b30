// Queries on stored events for the live screen, the command line and tests.
import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import { pickColumns } from "../../infra/clickhouse/columns.ts";
import {
  bind,
  type ClientScope,
  type Condition,
  cond,
  count,
  optional,
  readRows,
  text,
  unixMs,
} from "../../infra/clickhouse/query.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { eventReads, foundColumns } from "./table.ts";

export interface EventCounts {
  readonly client_id: number;
  readonly events: number;
  readonly attributed: number;
}

/** Counts the distinct events of each client. */
export const eventCounts = (clickhouse: Clickhouse, scope: ClientScope): Promise<readonly EventCounts[]> =>
  readRows(clickhouse, scope, {
    from: "events_current",
    columns: {
      client_id: count("client_id"),
      events: count("count()"),
      attributed: count("countIf(credit_status = 'attributed')"),
    },
    groupBy: ["client_id"],
    orderBy: ["client_id"],
  });

export interface Freshness {
  readonly rows: number;
  /** The receipt of the newest stored event. Null before the first one. */
  readonly last_received_at: number | null;
  /** Time from receipt to storage, of the events stored since `since`. */
  readonly p50_ms: number | null;
  readonly p99_ms: number | null;
}

/** The age of events when they were stored, for those stored since `since`. */
export const freshness = async (clickhouse: Clickhouse, scope: ClientScope, since: number): Promise<Freshness> => {
  const age = "toUnixTimestamp64Milli(stored_at) - toUnixTimestamp64Milli(received_at)";
  const quantile = (level: number) => optional(count(`if(count() = 0, null, quantileExact(${level})(${age}))`));
  const [row] = await readRows(clickhouse, scope, {
    from: "events",
    columns: {
      rows: count("count()"),
      last_received_at: optional(count("if(count() = 0, null, toUnixTimestamp64Milli(max(received_at)))")),
      p50_ms: quantile(0.5),
      p99_ms: quantile(0.99),
    },
    where: [cond`stored_at >= fromUnixTimestamp64Milli(${bind("Int64", since)})`],
  });
  return row!;
};

const shownOfVersion = [
  "version",
  "event_id",
  "sender_event_id",
  "t",
  "custom_name",
  "source",
  "client_side",
  "did",
  "ts",
  "received_at",
  "stored_at",
  "url",
  "country",
  "device",
  "browser",
  "is_bot",
  "consent",
  "props",
  "warnings",
  "enrich_errors",
  "click_id",
  "partner_ref",
  "dedup_key",
  "lead_key",
  "sale_hash",
  "order_id",
  "product_id",
  "quantity",
  "value_minor",
  "currency",
  ...foundColumns,
  "merged_into",
] as const;

/** The earliest and the latest time that senders gave for an event. */
export interface Times {
  readonly first: UnixMs;
  readonly last: UnixMs;
}
/**
 * Events are stored in order of time, so a search with a known time reads hours instead of years.
 */
export const between = ({ first, last }: Times): Condition =>
  cond`ts between fromUnixTimestamp64Milli(${bind("Int64", first)})
    and fromUnixTimestamp64Milli(${bind("Int64", last)})`;

/**
 * The versions of one event, beginning with the one that counts. Older versions are only there
 * until a merge drops them. An explanation begins here; second copies are found too. Returns
 * nothing for an event whose device withdrew its consent, unless it is an order, a lead or an
 * install.
 */
export const eventVersions = (clickhouse: Clickhouse, scope: ClientScope, eventId: string, times?: Times) =>
  readRows(clickhouse, scope, {
    from: "event_versions",
    columns: { ...pickColumns(eventReads, ...shownOfVersion), batch: eventReads.batch_id },
    where: [cond`event_id = ${bind("UUID", eventId)}`, ...(times === undefined ? [] : [between(times)])],
    orderBy: ["rank desc", "stored_at desc"],
  });
export type EventVersion = Awaited<ReturnType<typeof eventVersions>>[number];

/** Returns which of these events are stored, copies included, with their client and time. */
export const ownersOf = (clickhouse: Clickhouse, scope: ClientScope, eventIds: readonly string[]) =>
  readRows(clickhouse, scope, {
    from: "events",
    columns: {
      ...{ client_id: count("client_id"), event_id: text("event_id") },
      ...{ first: unixMs("min(ts)"), last: unixMs("max(ts)") },
    },
    where: [cond`event_id in ${bind("Array(UUID)", eventIds)}`],
    groupBy: ["client_id", "event_id"],
  });

/** The version that counts of each event, with the fields that say to which line it belongs. */
export const newestOfEvents = (clickhouse: Clickhouse, scope: ClientScope, eventIds: readonly string[]) =>
  readRows(clickhouse, scope, {
    from: "events",
    columns: {
      ...pickColumns(
        eventReads,
        ...(["client_id", "event_id", "sender_event_id", "t", "custom_name", "source", "client_side", "did"] as const),
        ...(["order_id", "product_id", "dedup_key", "lead_key", "sale_hash", "warnings", "merged_into"] as const),
        "credit_reason",
      ),
      // Of other events they are not needed, and may be large.
      props: text("if(t = 'refund', props, '{}')"),
    },
    where: [cond`event_id in ${bind("Array(UUID)", eventIds)}`],
    // The row that counts comes last, because merges may not have dropped the older ones yet.
    orderBy: ["rank", "stored_at"],
  });
export type StoredEvent = Awaited<ReturnType<typeof newestOfEvents>>[number];

/** More of one call have been sent by a stranger, who earns nothing, so they come last. */
const MOST_OF_PAGES = 10_000;

/**
 * The events of pages that may earn, by their sender's ids: what earned comes first, then what is
 * worth most. Their own ids cannot be computed, so this reads the ids of every such event of the
 * clients, as far as `times` does not bound it.
 */
export const eventsOfPages = (
  clickhouse: Clickhouse,
  scope: ClientScope,
  senderIds: readonly string[],
  times?: Times,
) =>
  readRows(clickhouse, scope, {
    from: "events",
    columns: {
      ...{ client_id: count("client_id"), event_id: text("event_id"), sender_event_id: text("sender_event_id") },
      ...{ first: unixMs("min(ts)"), last: unixMs("max(ts)") },
    },
    where: [
      cond`t in ('purchase', 'install', 'lead_submit', 'custom') and client_side`,
      cond`sender_event_id in ${bind("Array(String)", senderIds)}`,
      ...(times === undefined ? [] : [between(times)]),
    ],
    groupBy: ["client_id", "event_id", "sender_event_id"],
    orderBy: [
      "max(credit_status = 'attributed') desc",
      "max(t <> 'custom') desc",
      "max(value_minor) desc nulls last",
      "min(received_at)",
      "event_id",
    ],
    limit: MOST_OF_PAGES,
  });

/** The second copies of the sale that an event reported. */
export const copiesOf = (clickhouse: Clickhouse, scope: ClientScope, eventId: string) =>
  readRows(clickhouse, scope, {
    from: "events",
    columns: {
      event_id: text("event_id"),
      sender_event_id: optional(text("any(sender_event_id)")),
      source: text("any(source)"),
      received_at: unixMs("min(received_at)"),
    },
    where: [cond`merged_into = ${bind("UUID", eventId)}`],
    groupBy: ["event_id"],
    orderBy: ["event_id"],
  });

/** The newest events by receipt, oldest first, as `tail` prints them. */
export const latestEvents = async (clickhouse: Clickhouse, scope: ClientScope, limit: number) => {
  const rows = await readRows(clickhouse, scope, {
    from: "events_current",
    columns: {
      ...pickColumns(eventReads, "event_id", "client_id", "received_at", "order_id", "value_minor", "currency"),
      ...pickColumns(eventReads, "credit_status", "credit_reason", "partner_id"),
      t: text("coalesce(custom_name, t)"),
      at: unixMs("at"),
    },
    orderBy: ["received_at desc", "event_id"],
    limit,
  });
  return rows.toReversed();
};

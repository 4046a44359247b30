// Reads from the analytics store what became of the events of one request.
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { bind, type ClientScope, cond, count, readRows, text, unixMs } from "../../../infra/clickhouse/query.ts";

export type Fate = "attributed" | "unattributed" | "rejected_by_fraud" | "second_copy";
const fates: readonly (Fate | undefined)[] = [
  undefined,
  "attributed",
  "unattributed",
  "rejected_by_fraud",
  "second_copy",
];
const fateOf = (code: number): Fate => fates[code] ?? "unattributed";

/**
 * Counts the events that the request was the first to bring, by outcome. `tag` is the one of
 * processors/admit/batch-id.ts.
 */
export const receiptCounts = async (
  clickhouse: Clickhouse,
  scope: ClientScope,
  tag: string,
): Promise<ReadonlyMap<Fate, number>> => {
  const rows = await readRows(clickhouse, scope, {
    from: "receipts",
    columns: { code: count("fate % 8"), events: count("count()") },
    where: [cond`batch = toFixedString(unhex(${bind("String", tag)}), 10)`],
    groupBy: ["code"],
  });
  return new Map(rows.map(({ code, events }) => [fateOf(code), events]));
};

/**
 * Returns which request first brought an event, and its outcome; undefined while it is not stored.
 */
export const receiptOf = async (
  clickhouse: Clickhouse,
  scope: ClientScope,
  eventId: string,
): Promise<{ readonly tag: string; readonly fate: Fate; readonly version: number } | undefined> => {
  const rows = await readRows(clickhouse, scope, {
    from: "receipts",
    columns: { tag: text("lower(hex(batch))"), code: count("fate % 8"), version: count("intDiv(fate, 8)") },
    where: [cond`event_id = ${bind("UUID", eventId)}`],
    // An event that came again with another `ts` is another row; the first one counts.
    orderBy: ["batch"],
    limit: 1,
  });
  return rows[0] && { tag: rows[0].tag, fate: fateOf(rows[0].code), version: rows[0].version };
};

/** The first and the last time of the events that the request was the first to bring. */
export const receiptTimes = async (
  clickhouse: Clickhouse,
  scope: ClientScope,
  tag: string,
): Promise<{ readonly first: number; readonly last: number } | undefined> => {
  const [row] = await readRows(clickhouse, scope, {
    from: "receipts",
    columns: { events: count("count()"), first: unixMs("min(ts)"), last: unixMs("max(ts)") },
    where: [cond`batch = toFixedString(unhex(${bind("String", tag)}), 10)`],
  });
  return row === undefined || row.events === 0 ? undefined : row;
};

// The newest row of each of many events, with everything that stages found out about it. A
// recomputation is compared with it.

import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import { pickColumns } from "../../infra/clickhouse/columns.ts";
import { bind, type ClientScope, cond, readRows } from "../../infra/clickhouse/query.ts";
import type { Credit, Enrichment, Fraud } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { columnsOfRecords, creditOf, enrichmentOf, fraudOf } from "./generated.ts";
import { eventReads, foundColumns } from "./table.ts";

export interface LatestRow {
  readonly version: number;
  readonly merged_into: string | null;
  readonly enrichment: Enrichment;
  readonly fraud: Fraud;
  readonly credit: Credit;
}

/** Ids in one statement, about 40 kB of text. */
const IDS_AT_ONCE = 1_000;

/**
 * Rows by event id. An event without a row is absent. `ts` is part of the key by its hour, so only
 * the parts of these hours are read. Identity links have a table of their own.
 */
export const latestRows = async (
  clickhouse: Clickhouse,
  scope: ClientScope,
  events: readonly { readonly event_id: string; readonly ts: UnixMs }[],
): Promise<ReadonlyMap<string, LatestRow>> => {
  const found = new Map<string, LatestRow>();
  for (let n = 0; n < events.length; n += IDS_AT_ONCE) {
    const some = events.slice(n, n + IDS_AT_ONCE);
    for (const row of await rowsOf(clickhouse, scope, some)) found.set(row.event_id, rowParts(row));
  }
  return found;
};

/** The columns that `rowParts` reads. */
export const partColumns = [
  ...(["event_id", "version", "merged_into"] as const),
  ...columnsOfRecords.enrichment,
  ...foundColumns,
  ...columnsOfRecords.hints,
] as const;

const rowsOf = (
  clickhouse: Clickhouse,
  scope: ClientScope,
  events: readonly { readonly event_id: string; readonly ts: UnixMs }[],
) => {
  const times = events.map(({ ts }) => ts);
  const [first, last] = times.reduce(
    ([low, high], ts) => [Math.min(low, ts), Math.max(high, ts)],
    [times[0]!, times[0]!],
  );
  return readRows(clickhouse, scope, {
    from: "events",
    columns: pickColumns(eventReads, ...partColumns),
    where: [
      cond`ts >= fromUnixTimestamp64Milli(${bind("Int64", first)})
        and ts <= fromUnixTimestamp64Milli(${bind("Int64", last)})`,
      cond`event_id in ${bind(
        "Array(UUID)",
        events.map(({ event_id }) => event_id),
      )}`,
    ],
    // The row that counts comes last, because merges may not have dropped the older ones yet.
    orderBy: ["rank"],
  });
};

/** The parts of an event that stages wrote. */
export const rowParts = (row: Awaited<ReturnType<typeof rowsOf>>[number]): LatestRow => ({
  version: row.version,
  merged_into: row.merged_into,
  enrichment: enrichmentOf(row),
  fraud: fraudOf(row),
  credit: creditOf(row),
});

// Hashes the analytics tables, one hash a table: equal when the same rows are read from them,
// however they are stored.

import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import type { StoredTable } from "../../../infra/clickhouse/columns.ts";
import { rollupTables } from "../../figures/rollups/table.ts";
import { type ColumnsByTable, type HourHash, TIMES } from "./hour-hash.ts";
import { analyticsTables } from "./sink-tables.ts";

/** Tables that sinks fill, and tables that are computed from those. */
export const hashedAnalytics: readonly StoredTable[] = [...analyticsTables, ...rollupTables];
/** Tables whose contents do not come from the log. */
export const unhashedAnalytics: Readonly<Record<string, string>> = {
  migrations: "which files were applied, and when",
  claim_positions: "an index: where claims lie in the log",
  claim_receipts: "an index: the rows of claim_positions in another order",
  device_events: "an index: which rows of events a reprocess asks for by their device",
  probe: "what the keeper writes to see whether the store answers",
};

/**
 * Returns for each hour the sum (modulo 2^256) of the SHA-256 of every row as FINAL reads it. A sum
 * does not depend on the order of rows, so nothing is sorted and memory stays that of one block and
 * the hours. Takes about 1.3 us a row of 800 bytes.
 * Columns are ordered by name, since an altered table has them in another order than a new one. The
 * result contains figures of all clients and no row, so it needs no scope. Throws the server's
 * error.
 */
export const hashAnalytics = async (
  clickhouse: Clickhouse,
  names: readonly string[],
  columnsByTable?: ColumnsByTable,
): Promise<readonly HourHash[]> => {
  const found: HourHash[] = [];
  for (const hashed of hashedAnalytics) {
    const { name: table, where } = hashed;
    if (!names.includes(table)) continue;
    const columns = columnsByTable?.get(table) ?? hashedColumns(hashed);
    const time = TIMES[table];
    const hour = time === undefined ? "null" : `toUnixTimestamp(toStartOfHour(${time})) * 1000`;
    const answer = await clickhouse.query({
      query: `select ${hour} as hour, count() as rows,
        lower(hex(sumWithOverflow(reinterpretAsUInt256(SHA256(formatRow('RowBinary', ${columns.join(", ")})))))) as hash
from ${table} final where ${where ?? "1"} group by hour order by hour
settings do_not_merge_across_partitions_select_final = 1`,
      format: "JSONEachRow",
    });
    const hours = await answer.json<{ hour: string | null; rows: string; hash: string }>();
    const whole = { store: "clickhouse", table, columns } as const;
    for (const { hour, rows, hash } of hours)
      found.push({
        ...whole,
        hour: hour === null ? null : Number(hour),
        ...{ rows: Number(rows), hash: BigInt(`0x${hash}`) },
      });
    if (hours.length === 0) found.push({ ...whole, hour: null, rows: 0, hash: 0n });
  }
  return found;
};

/** Differing rows that are shown; more would add nothing. */
const SHOWN_ROWS = 5;

/**
 * Compares a table with the same table of another database of this server. Returns one sentence a
 * row, `<key>: <column> <here> / <there>`, for the first five rows that differ. Null is shown as
 * `-`. Throws RangeError on a table that is not hashed, and the server's error.
 */
export const differingRows = async (
  clickhouse: Clickhouse,
  table: string,
  other: string,
): Promise<readonly string[]> => {
  const hashed = hashedAnalytics.find((one) => one.name === table);
  if (hashed === undefined) throw new RangeError(`not a table that is hashed: ${table}`);
  const columns = hashedColumns(hashed);
  const side = (from: string) =>
    `select toString(tuple(${hashed.key.join(", ")})) as key,
      [${columns.map((column) => `ifNull(toString(${column}), '-')`).join(", ")}] as shown
from ${from} final where ${hashed.where ?? "1"}`;
  const names = columns.map((column) => `'${column}'`).join(", ");
  const answer = await clickhouse.query({
    query: `select if(here.key = '', there.key, here.key) as key, here.key = '' as missing_here,
      there.key = '' as missing_there,
  arrayFilter(line -> line != '', arrayMap((name, a, b) -> if(a = b, '', concat(name, ' ', a, ' / ', b)), [${names}],
    if(missing_here, there.shown, here.shown), if(missing_there, here.shown, there.shown))) as differences
from (${side(table)}) as here full outer join (${side(`{other:Identifier}.${table}`)}) as there on here.key = there.key
where missing_here or missing_there or here.shown != there.shown order by key limit ${SHOWN_ROWS}
settings do_not_merge_across_partitions_select_final = 1`,
    query_params: { other },
    format: "JSONEachRow",
  });
  const rows = await answer.json<{
    key: string;
    missing_here: number;
    missing_there: number;
    differences: readonly string[];
  }>();
  return rows.map(({ key, missing_here, missing_there, differences }) =>
    missing_here ? `${key} is only there` : missing_there ? `${key} is only here` : `${key}: ${differences.join(", ")}`,
  );
};

/** The order never changes, so that equal rows have equal hashes. */
const hashedColumns = ({ columns }: StoredTable): readonly string[] =>
  columns
    .filter((column) => column.volatile === undefined)
    .map((column) => column.name)
    .toSorted();

// What the analytics tables hold, as one hash a table: equal when the same rows are read from them,
// however they are stored.

import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import { volatileEventColumns } from "../../sinks/analytics/events.ts";
import type { TableHash } from "./postgres.ts";

interface Hashed {
  readonly table: string;
  /** What one row is known by. */
  readonly key: readonly string[];
  /** Columns that two readings of one log need not agree on. */
  readonly volatile: readonly string[];
  /** Rows that nobody reads, and that may be there or not. */
  readonly where?: string;
}
/**
 * Everything that sinks fill. Of `events` the reasons stand beside each column in the migrations.
 */
export const hashedAnalytics: readonly Hashed[] = [
  { table: "events", key: ["client_id", "event_id"], volatile: volatileEventColumns },
  {
    table: "receipts",
    key: ["client_id", "event_id"],
    volatile: [],
    // A row past its time goes with the next merge of its part, whenever that is.
    where:
      "toDateTime(toUInt32(intDiv(reinterpretAsUInt64(reverse(substring(batch, 1, 6))), 1000)), 'UTC') + interval 32 day > now()",
  },
  {
    table: "rollups",
    key: [
      "client_id",
      "grain",
      "bucket",
      "event_type",
      "source",
      "partner_id",
      "campaign_id",
      "country",
      "device",
      "currency",
    ],
    // The sequence of the mark that asked for the computation.
    volatile: ["version"],
    // A group that emptied stays as zeros, and is not there where it never was.
    where: "events > 0",
  },
];
/** Tables that hold no reading of the log. */
export const unhashedAnalytics: Readonly<Record<string, string>> = {
  migrations: "which files were applied, and when",
  probe: "what the keeper writes to see whether the store answers",
};

/**
 * The sum (modulo 2^256) of the SHA-256 of every row as FINAL reads it. A sum does not depend on
 * the order of rows, so nothing is sorted and memory stays that of one block. About 1.3 us a row of
 * 800 bytes. Columns go by name: an altered table has them in another order than a new one.
 * The answer tells figures of all clients and shows no row, so it needs no scope. Throws the
 * server's error.
 */
export const hashAnalytics = async (
  clickhouse: Clickhouse,
  names: readonly string[],
): Promise<readonly TableHash[]> => {
  const found: TableHash[] = [];
  for (const { table, volatile, where } of hashedAnalytics) {
    if (!names.includes(table)) continue;
    const columns = (await columnsOf(clickhouse, table)).filter((column) => !volatile.includes(column));
    const answer = await clickhouse.query({
      query: `select count() as rows, lower(hex(sumWithOverflow(reinterpretAsUInt256(SHA256(formatRow('RowBinary', ${columns.join(", ")})))))) as hash
from ${table} final where ${where ?? "1"} settings do_not_merge_across_partitions_select_final = 1`,
      format: "JSONEachRow",
    });
    const [row] = await answer.json<{ rows: string; hash: string }>();
    found.push({ store: "clickhouse", table, rows: Number(row!.rows), hash: row!.hash.padStart(64, "0") });
  }
  return found;
};

/** Rows that are told of a difference; more of them tell nothing else. */
const TOLD = 5;

/**
 * What differs between a table here and the same table of another database of this server: one
 * sentence a row, `<key>: <column> <here> / <there>`, the first five rows. Null is told as `-`.
 * Throws RangeError on a table that is not hashed, and the server's error.
 */
export const differingRows = async (
  clickhouse: Clickhouse,
  table: string,
  other: string,
): Promise<readonly string[]> => {
  const hashed = hashedAnalytics.find((one) => one.table === table);
  if (hashed === undefined) throw new RangeError(`not a table that is hashed: ${table}`);
  const columns = (await columnsOf(clickhouse, table)).filter((column) => !hashed.volatile.includes(column));
  const side = (from: string) =>
    `select toString(tuple(${hashed.key.join(", ")})) as key, [${columns.map((column) => `ifNull(toString(${column}), '-')`).join(", ")}] as shown
from ${from} final where ${hashed.where ?? "1"}`;
  const names = columns.map((column) => `'${column}'`).join(", ");
  const answer = await clickhouse.query({
    query: `select if(here.key = '', there.key, here.key) as key, here.key = '' as missing_here, there.key = '' as missing_there,
  arrayFilter(told -> told != '', arrayMap((name, a, b) -> if(a = b, '', concat(name, ' ', a, ' / ', b)), [${names}], if(missing_here, there.shown, here.shown), if(missing_there, here.shown, there.shown))) as told
from (${side(table)}) as here full outer join (${side(`{other:Identifier}.${table}`)}) as there on here.key = there.key
where missing_here or missing_there or here.shown != there.shown order by key limit ${TOLD}
settings do_not_merge_across_partitions_select_final = 1`,
    query_params: { other },
    format: "JSONEachRow",
  });
  const rows = await answer.json<{
    key: string;
    missing_here: number;
    missing_there: number;
    told: readonly string[];
  }>();
  return rows.map(({ key, missing_here, missing_there, told }) =>
    missing_here ? `${key} is only there` : missing_there ? `${key} is only here` : `${key}: ${told.join(", ")}`,
  );
};

const columnsOf = async (clickhouse: Clickhouse, table: string): Promise<readonly string[]> => {
  const answer = await clickhouse.query({
    query: `select name from system.columns
where database = currentDatabase() and table = {table:String} and default_kind not in ('ALIAS', 'MATERIALIZED', 'EPHEMERAL') order by name`,
    query_params: { table },
    format: "JSONEachRow",
  });
  return (await answer.json<{ name: string }>()).map(({ name }) => name);
};

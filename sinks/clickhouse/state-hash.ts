// sinks/clickhouse/state-hash.ts - what the analytics tables hold, as one hash a table: equal when the same rows are read from them, however they are stored.
import type { TableHash } from "../postgres/state-hash.ts";
import type { Clickhouse } from "./client.ts";
import { volatileEventColumns } from "./tables/events.ts";

interface Hashed {
  readonly table: string;
  /** Columns that two readings of one log need not agree on. */
  readonly volatile: readonly string[];
  /** Rows that nobody reads, and that may be there or not. */
  readonly where?: string;
}
/** Everything that sinks fill. Of `events` the reasons stand beside each column in the migrations. */
export const hashedAnalytics: readonly Hashed[] = [
  { table: "events", volatile: volatileEventColumns },
  {
    table: "receipts",
    volatile: [],
    // A row past its time goes with the next merge of its part, whenever that is.
    where: "toDateTime(toUInt32(intDiv(reinterpretAsUInt64(reverse(substring(batch, 1, 6))), 1000)), 'UTC') + interval 32 day > now()",
  },
  {
    table: "rollups",
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
 * The sum (modulo 2^256) of the SHA-256 of every row as FINAL reads it. A sum does not depend on the order of rows, so nothing is sorted and memory
 * stays that of one block. About 1.3 us a row of 800 bytes. Columns go by name: an altered table has them in another order than a new one.
 * The answer tells figures of all clients and shows no row, so it needs no scope. Throws the server's error.
 */
export const hashAnalytics = async (clickhouse: Clickhouse, names: readonly string[]): Promise<readonly TableHash[]> => {
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

const columnsOf = async (clickhouse: Clickhouse, table: string): Promise<readonly string[]> => {
  const answer = await clickhouse.query({
    query: `select name from system.columns
where database = currentDatabase() and table = {table:String} and default_kind not in ('ALIAS', 'MATERIALIZED', 'EPHEMERAL') order by name`,
    query_params: { table },
    format: "JSONEachRow",
  });
  return (await answer.json<{ name: string }>()).map(({ name }) => name);
};

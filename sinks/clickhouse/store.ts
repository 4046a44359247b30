// sinks/clickhouse/store.ts - how a sink's rows get into ClickHouse: one insert a call, repeated safely under its token.
import type { Write } from "../../stream/flow.ts";
import { type Clickhouse, EncodedRows } from "./client.ts";
import { eventColumns } from "./tables/events.ts";

/** The columns of each table that sinks write, in the order of a row's values. */
const columnsOf: Readonly<Record<string, readonly string[]>> = { events: eventColumns };

export interface ClickhouseStore {
  /**
   * Writes positional rows as one insert, hence one block a month. The same insert under the same token is answered without being written again; that
   * only saves work after a lost answer, for tables are idempotent by key and version. Throws the server's error with its numeric `code`.
   */
  readonly insert: (table: string, rows: readonly unknown[], token: string) => Promise<void>;
  /** The same shape as in Postgres: runs `work` with a `write` whose calls are one insert each, told apart inside the token. */
  readonly within: (
    batch: { readonly tenants: readonly number[]; readonly token: string },
    work: (write: Write) => Promise<void>,
  ) => Promise<void>;
}

// Above the rows and bytes of any fetch: what is given as one insert stays one block, so that its token stands for all of it.
const oneBlock = {
  min_insert_block_size_rows: "4000000",
  min_insert_block_size_bytes: "1000000000",
  input_format_parallel_parsing: 0,
} as const;

/**
 * The columns that are null in every row are left to their default, which is null as well: writing them out and reading them cost a fifth of an insert.
 * A third of an event's columns are such: the ids of imports, of campaigns, of a network that nobody has a database for.
 */
export const withoutEmpty = (
  columns: readonly string[],
  rows: readonly (readonly unknown[])[],
): { readonly columns: readonly string[]; readonly rows: readonly (readonly unknown[])[] } => {
  const used = columns.flatMap((_, n) => (rows.some((row) => row[n] !== null) ? [n] : []));
  if (used.length === columns.length) return { columns, rows };
  return { columns: used.map((n) => columns[n]!), rows: rows.map((row) => used.map((n) => row[n])) };
};

export const clickhouseStore = (clickhouse: Clickhouse): ClickhouseStore => {
  const insert: ClickhouseStore["insert"] = async (table, rows, token) => {
    const columns = columnsOf[table];
    if (columns === undefined) throw new Error(`ClickHouse has no table ${table} that a sink writes`);
    if (rows.length === 0) return;
    const given = withoutEmpty(columns, rows as readonly (readonly unknown[])[]);
    await clickhouse.insert({
      table,
      columns: given.columns as [string, ...string[]],
      format: "JSONCompactEachRow",
      values: [new EncodedRows(given.rows)],
      clickhouse_settings: { ...oneBlock, insert_deduplicate: 1, insert_deduplication_token: token },
    });
  };
  return {
    insert,
    within: async ({ token }, work) => {
      let calls = 0;
      await work((table, rows) => insert(table, rows, `${token}/${calls++}`));
    },
  };
};

// Writes the rows of sinks to ClickHouse: one insert for each call, which its token makes safe to
// repeat.
import { Readable } from "node:stream";
import { finished } from "node:stream/promises";
import { Block } from "../../infra/clickhouse/block.ts";
import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import type { DeclaredColumn, StoredTable } from "../../infra/clickhouse/columns.ts";
import { type NativeValue, nativeBlocks } from "../../infra/clickhouse/native.ts";
import type { transcoder } from "../../infra/clickhouse/transcode.ts";
import type { Marks, Recorded, Table, Write } from "../../stream/flow.ts";

/** A table with the function that turns its rows into a block. */
export interface ClickhouseTable<Row> extends Table<Row> {
  readonly columns: readonly DeclaredColumn[];
  /** Names one row to people, if `key` has more columns than that needs. */
  readonly comparedBy?: readonly string[];
  /** Further tables that the store fills by views of this one. */
  readonly fills?: readonly StoredTable[];
  readonly blockOf: (rows: readonly Row[], block: Block) => ReturnType<ReturnType<typeof nativeBlocks>>;
}
/** A row has its key by name, its values by position, and possibly the event that it is made of. */
interface PositionalRow {
  readonly client_id: number;
  readonly values: readonly NativeValue[];
  readonly event?: Recorded<any>;
}

export const clickhouseTable = <Row extends PositionalRow>(
  declared: Pick<
    ClickhouseTable<Row>,
    "name" | "key" | "columns" | "comparedBy" | "fills" | "unhashed" | "isBesideFigures"
  >,
  marks?: Marks<Row>,
  transcode?: ReturnType<typeof transcoder>,
): ClickhouseTable<Row> => {
  const blockOfValues = nativeBlocks(declared.columns);
  const table: ClickhouseTable<Row> = {
    ...declared,
    store: "clickhouse",
    // If the transcoder cannot write some row, the values of all rows are written instead.
    blockOf: (rows, block) =>
      transcode?.(
        rows.map(({ event }) => event),
        block,
      ) ??
      blockOfValues(
        rows.map(({ values }) => values),
        block,
      ),
    tenantOf: (row) => row.client_id,
    write: (rows, write) => write(table, rows),
    ...(marks && { marks }),
  };
  return table;
};

export const isClickhouseTable = (table: { readonly name: string }): table is ClickhouseTable<unknown> =>
  "blockOf" in table;

export interface ClickhouseStore {
  /**
   * Writes the rows as one insert, hence as one block a month. If the insert is repeated under the
   * same token, the store answers without writing. This only saves work after a lost answer,
   * because tables are idempotent by key and version. Throws the server's error with its numeric
   * `code`.
   */
  readonly insert: <Row>(table: ClickhouseTable<Row>, rows: readonly Row[], token: string) => Promise<void>;
  /** Runs `work`, as in Postgres. Each call of `write` is one insert, numbered within the token. */
  readonly within: (
    batch: { readonly tenants: readonly number[]; readonly token: string },
    work: (write: Write) => Promise<void>,
  ) => Promise<void>;
}

// Larger than any fetch, so that the rows of one insert stay one block and its token covers all of
// them.
const oneBlock = {
  min_insert_block_size_rows: "4000000",
  min_insert_block_size_bytes: "1000000000",
  // Copies within one block are rare, and readers merge what they read (FINAL). Removing copies
  // here took a third of an insert's time.
  optimize_on_insert: 0,
} as const;
/**
 * Blocks that are kept for the next insert. A store writes one block at a time, and two while a
 * replay runs in the same process.
 */
const KEPT_BLOCKS = 2;

export const clickhouseStore = (clickhouse: Clickhouse): ClickhouseStore => {
  const kept: Block[] = [];
  const insert: ClickhouseStore["insert"] = async (table, rows, token) => {
    if (rows.length === 0) return;
    const block = kept.pop() ?? new Block();
    const { columns, bytes } = table.blockOf(rows, block);
    const { stream } = await clickhouse.exec({
      query: `insert into ${table.name} (${columns.join(", ")}) format Native`,
      values: Readable.from([bytes]),
      clickhouse_settings: { ...oneBlock, insert_deduplicate: 1, insert_deduplication_token: token },
    });
    // The empty answer must be read, or it would hold its connection. If it breaks off, the result
    // of the insert is unknown, and it is repeated under its token.
    await finished(stream.resume());
    // The bytes of a failed insert may still be on their way, so its block is not reused.
    if (kept.length < KEPT_BLOCKS) kept.push(block);
  };
  return {
    insert,
    within: async ({ token }, work) => {
      let calls = 0;
      await work((table, rows) => {
        if (!isClickhouseTable(table)) throw new Error(`the table ${table.name} has no columns for ClickHouse`);
        return insert(table, rows, `${token}/${calls++}`);
      });
    },
  };
};

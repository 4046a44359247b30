// How a sink's rows get into ClickHouse: one insert a call, repeated safely under its token.
import { Readable } from "node:stream";
import { finished } from "node:stream/promises";
import { Block } from "../../infra/clickhouse/block.ts";
import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import type { DeclaredColumn, StoredTable } from "../../infra/clickhouse/columns.ts";
import { type NativeValue, nativeBlocks } from "../../infra/clickhouse/native.ts";
import type { transcoder } from "../../infra/clickhouse/transcode.ts";
import type { Marks, Recorded, Table, Write } from "../../stream/flow.ts";

/** A table with the way in which its rows become a block. */
export interface ClickhouseTable<Row> extends Table<Row> {
  readonly columns: readonly DeclaredColumn[];
  /** Names one row to people, where `key` says more than that needs. */
  readonly comparedBy?: readonly string[];
  /** Further tables that the store fills by views of this one. */
  readonly fills?: readonly StoredTable[];
  readonly blockOf: (rows: readonly Row[], block: Block) => ReturnType<ReturnType<typeof nativeBlocks>>;
}
/** Rows hold their values by position beside their key, or the event that they are made of. */
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
  marks: Marks<Row>,
  transcode?: ReturnType<typeof transcoder>,
): ClickhouseTable<Row> => {
  const blockOfValues = nativeBlocks(declared.columns);
  const table: ClickhouseTable<Row> = {
    ...declared,
    store: "clickhouse",
    // What is unusual about one row is for its values to say.
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
    marks,
  };
  return table;
};

export const isClickhouseTable = (table: { readonly name: string }): table is ClickhouseTable<unknown> =>
  "blockOf" in table;

export interface ClickhouseStore {
  /**
   * Writes rows of the table as one insert, hence one block a month. The same insert under the same
   * token is answered without being written again; that only saves work after a lost answer, for
   * tables are idempotent by key and version. Throws the server's error with its numeric `code`.
   */
  readonly insert: <Row>(table: ClickhouseTable<Row>, rows: readonly Row[], token: string) => Promise<void>;
  /**
   * The same shape as in Postgres: runs `work` with a `write` whose calls are one insert each,
   * numbered inside the token.
   */
  readonly within: (
    batch: { readonly tenants: readonly number[]; readonly token: string },
    work: (write: Write) => Promise<void>,
  ) => Promise<void>;
}

// Above the rows and bytes of any fetch: what is given as one insert stays one block, so that its
// token stands for all of it.
const oneBlock = {
  min_insert_block_size_rows: "4000000",
  min_insert_block_size_bytes: "1000000000",
  // Copies inside of one block are as rare as others, and readers merge what they read (FINAL):
  // looking for them here was a third of an insert.
  optimize_on_insert: 0,
} as const;
/**
 * Blocks that are kept for the next insert: of a store, one is written at a time, two while a
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
    // The answer is empty; unread it would hold its connection. One that breaks off is an insert
    // whose end is unknown: it comes again under its token.
    await finished(stream.resume());
    // Of an insert that failed the bytes may be on their way still.
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

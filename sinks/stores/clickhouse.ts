// How a sink's rows get into ClickHouse: one insert a call, repeated safely under its token.
import { Readable } from "node:stream";
import { finished } from "node:stream/promises";
import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import { Block, type NativeType, nativeBlocks } from "../../infra/clickhouse/native.ts";
import type { Write } from "../../stream/flow.ts";
import { eventColumns } from "../analytics/events.ts";

const blocksOf = (columns: Readonly<Record<string, NativeType>>) =>
  nativeBlocks(Object.entries(columns).map(([name, type]) => ({ name, type })));
/** How the rows of each table that sinks write become a block. */
const tables: Readonly<Record<string, ReturnType<typeof nativeBlocks>>> = { events: blocksOf(eventColumns) };

export interface ClickhouseStore {
  /**
   * Writes positional rows as one insert, hence one block a month. The same insert under the same
   * token is answered without being written again; that only saves work after a lost answer, for
   * tables are idempotent by key and version. Throws the server's error with its numeric `code`.
   */
  readonly insert: (table: string, rows: readonly unknown[], token: string) => Promise<void>;
  /**
   * The same shape as in Postgres: runs `work` with a `write` whose calls are one insert each, told
   * apart inside the token.
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
    const write = tables[table];
    if (write === undefined) throw new Error(`ClickHouse has no table ${table} that a sink writes`);
    if (rows.length === 0) return;
    const block = kept.pop() ?? new Block();
    const { columns, bytes } = write(rows as readonly (readonly unknown[])[], block);
    const { stream } = await clickhouse.exec({
      query: `insert into ${table} (${columns.join(", ")}) format Native`,
      values: Readable.from([bytes]),
      clickhouse_settings: { ...oneBlock, insert_deduplicate: 1, insert_deduplication_token: token },
    });
    // It says nothing; unread it would hold its connection, and one that breaks has not been heard
    // to the end: the insert comes again under its token.
    await finished(stream.resume());
    // Of an insert that failed the bytes may be on their way still.
    if (kept.length < KEPT_BLOCKS) kept.push(block);
  };
  return {
    insert,
    within: async ({ token }, work) => {
      let calls = 0;
      await work((table, rows) => insert(table, rows, `${token}/${calls++}`));
    },
  };
};

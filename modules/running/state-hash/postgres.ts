// Hashes the tables of sales and money, one hash a table: equal when they hold the same rows.
import type { Pool, PoolClient } from "pg";
import { named, transaction } from "../../../infra/postgres/sql.ts";
import { postgresTables } from "./sink-tables.ts";

/**
 * The state of one table: the number of rows, and a hash of all rows that does not depend on their
 * order.
 */
export interface TableHash {
  readonly store: "clickhouse" | "postgres";
  readonly table: string;
  readonly rows: number;
  /** 64 hex digits. */
  readonly hash: string;
}

/** The role that may read the rows of every client at once. */
const READER = "tributary_reference";

/**
 * Returns the exclusive or of the SHA-256 of every row, with one statement a table and one snapshot
 * for all. Nothing is sorted, and memory stays that of one row.
 * The key of each table makes its rows distinct, so that no two rows cancel out. Columns are
 * ordered by name. `pool` must allow statements as long as reading a table takes.
 */
export const hashTables = (pool: Pool, names: readonly string[]): Promise<readonly TableHash[]> =>
  readingAll(pool, async (tx) => {
    const found: TableHash[] = [];
    for (const { name: table, columns } of postgresTables) {
      if (!names.includes(table)) continue;
      const row = Object.keys(columns)
        .toSorted()
        .map((name) => named(name).text)
        .join(", ");
      const { rows } = await tx.query<{ rows: number; hash: string }>(`
        select count(*)::float8 as rows, coalesce(bit_xor(row_hash), repeat('0', 256)::bit(256))::text as hash
        from (select ('x' || encode(sha256(convert_to(row(${row})::text, 'UTF8')), 'hex'))::bit(256) as row_hash
          from ${named(table).text}) as hashed`);
      found.push({ store: "postgres", table, rows: rows[0]!.rows, hash: hexOf(rows[0]!.hash) });
    }
    return found;
  });

/** Converts 256 binary digits to 64 hex digits. */
const hexOf = (bits: string): string => BigInt(`0b${bits}`).toString(16).padStart(64, "0");

/**
 * Reads as the application's role with every client among its tenants, so that row-level security
 * stays on. The text of a row does not depend on the session.
 */
const readingAll = async <T>(pool: Pool, work: (tx: PoolClient) => Promise<T>): Promise<T> => {
  const clients = await transaction(
    pool,
    null,
    async (tx) =>
      (await tx.query<{ client_id: number }>("select distinct client_id from clients")).rows.map(
        ({ client_id }) => client_id,
      ),
    { role: READER, isReadOnly: true },
  );
  return transaction(
    pool,
    clients,
    async (tx) => {
      await tx.query(
        "set local timezone = 'UTC'; set local datestyle = 'ISO'; set local extra_float_digits = 1; set " +
          "local bytea_output = 'hex'",
      );
      return work(tx);
    },
    { isReadOnly: true },
  );
};

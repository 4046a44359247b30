// Hashes the tables of sales and money, one hash a table: equal when they hold the same rows.
import type { Pool, PoolClient } from "pg";
import { named, transaction } from "../../../infra/postgres/sql.ts";
import { type ColumnsByTable, type HourHash, TIMES } from "./hour-hash.ts";
import { postgresTables } from "./sink-tables.ts";

/** The role that may read the rows of every client at once. */
const READER = "tributary_reference";

/**
 * Returns for each hour the exclusive or of the SHA-256 of every row, with one statement a table
 * and one snapshot for all. Nothing is sorted, and memory stays that of the hours.
 * The key of each table makes its rows distinct, so that no two rows cancel out. Columns are
 * ordered by name. `pool` must allow statements as long as reading a table takes.
 */
export const hashTables = (
  pool: Pool,
  names: readonly string[],
  columnsByTable?: ColumnsByTable,
): Promise<readonly HourHash[]> =>
  readingAll(pool, async (tx) => {
    const found: HourHash[] = [];
    for (const { name: table, columns: declared } of postgresTables) {
      if (!names.includes(table)) continue;
      const columns = columnsByTable?.get(table) ?? Object.keys(declared).toSorted();
      const row = columns.map((name) => named(name).text).join(", ");
      const time = TIMES[table];
      const hour =
        time === undefined ? "null::float8" : `(extract(epoch from date_trunc('hour', ${time})) * 1000)::float8`;
      const { rows: hours } = await tx.query<{ hour: number | null; rows: number; hash: string }>(`
        select hour, count(*)::float8 as rows, bit_xor(row_hash)::text as hash
        from (select ${hour} as hour,
            ('x' || encode(sha256(convert_to(row(${row})::text, 'UTF8')), 'hex'))::bit(256) as row_hash
          from ${named(table).text}) as hashed
        group by hour order by hour`);
      const whole = { store: "postgres", table, columns } as const;
      for (const one of hours) found.push({ ...whole, hour: one.hour, rows: one.rows, hash: BigInt(`0b${one.hash}`) });
      if (hours.length === 0) found.push({ ...whole, hour: null, rows: 0, hash: 0n });
    }
    return found;
  });

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

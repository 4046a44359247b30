// How a sink's rows get into Postgres: the statements of a table, each with one JSON parameter that
// holds up to 5,000 rows.
import type { Pool, PoolClient } from "pg";
import type { Columns, DeclaredTable } from "../../infra/postgres/columns.ts";
import { transaction } from "../../infra/postgres/sql.ts";
import type { Table, Write } from "../../stream/flow.ts";

/** Larger statements gain nothing and hold their locks longer. */
const ROWS_A_STATEMENT = 5_000;

/** A table with the statements that write to it, one after the other on the same rows, as `$1`. */
export interface PostgresTable<Row> extends Table<Row> {
  readonly columns: Columns;
  readonly statements: readonly string[];
}

export const postgresTable = <Row extends { readonly client_id: number }>(
  declared: DeclaredTable & { readonly key: readonly (keyof Row & string)[] },
  statements: readonly string[],
): PostgresTable<Row> => {
  const table: PostgresTable<Row> = {
    ...declared,
    store: "postgres",
    statements,
    tenantOf: (row) => row.client_id,
    write: (rows, write) => write(table, rows),
  };
  return table;
};

export interface PostgresStore {
  /**
   * Runs `work` in one transaction that sees `tenants` alone; all its writes are there together or
   * not at all. `token` is of no use here: rows are idempotent by key. Throws the server's error
   * with its SQLSTATE in `code`, that of a deferred check when the transaction ends.
   */
  readonly within: (
    batch: { readonly tenants: readonly number[]; readonly token: string },
    work: (write: Write) => Promise<void>,
  ) => Promise<void>;
}

const isPostgresTable = (table: { readonly name: string }): table is PostgresTable<unknown> => "statements" in table;

const writeTo =
  (tx: PoolClient): Write =>
  async (table, rows) => {
    if (!isPostgresTable(table)) throw new Error(`the table ${table.name} has no statements for Postgres`);
    for (let start = 0; start < rows.length; start += ROWS_A_STATEMENT) {
      const values = [JSON.stringify(rows.slice(start, start + ROWS_A_STATEMENT))];
      // Planned each time, about a millisecond: a plan that was made when the tables were empty
      // would be kept while they grow.
      for (const text of table.statements) await tx.query(text, values);
    }
  };

export const postgresStore = (pool: Pool): PostgresStore => ({
  within: ({ tenants }, work) => transaction(pool, tenants, (tx) => work(writeTo(tx))),
});

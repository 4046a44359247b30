// How a sink's rows get into Postgres: the statements of a table, each with one JSON parameter made
// of up to 5,000 rows.
import type { Pool, PoolClient } from "pg";
import type { Columns, DeclaredTable } from "../../infra/postgres/columns.ts";
import { transaction } from "../../infra/postgres/sql.ts";
import type { Table, Write } from "../../stream/flow.ts";

/** Larger statements gain nothing and hold their locks longer. */
const ROWS_A_STATEMENT = 5_000;

export interface Statement<Row> {
  readonly text: string;
  /**
   * What it needs of the rows, as `$1`: reading text that it does not need costs the server more
   * than most statements. Without it: the rows. It is not asked about nothing.
   */
  readonly given?: (rows: readonly Row[]) => readonly unknown[];
  /**
   * Asked only behind a statement that left some of its rows out, for it looks at those that were
   * there already.
   */
  readonly isOfRowsLeftOut?: true;
}

/** A table with the statements that write to it, one after the other on the same rows. */
export interface PostgresTable<Row> extends Table<Row> {
  readonly columns: Columns;
  readonly statements: readonly Statement<Row>[];
}

export const postgresTable = <Row extends { readonly client_id: number }>(
  declared: DeclaredTable & { readonly key: readonly (keyof Row & string)[] },
  statements: readonly Statement<Row>[],
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

/**
 * Planned each time: a plan that was made when the tables were empty would be kept while they grow.
 */
const ask = async <Row>(tx: PoolClient, statements: readonly Statement<Row>[], rows: readonly Row[]): Promise<void> => {
  const whole = JSON.stringify(rows);
  let isComplete = false;
  for (const { text, given, isOfRowsLeftOut } of statements) {
    if (isOfRowsLeftOut && isComplete) continue;
    const needed = given === undefined ? rows : given(rows);
    if (needed.length === 0) continue;
    const { rowCount } = await tx.query(text, [given === undefined ? whole : JSON.stringify(needed)]);
    isComplete = rowCount === needed.length;
  }
};

const writeTo =
  (tx: PoolClient): Write =>
  async (table, rows) => {
    if (!isPostgresTable(table)) throw new Error(`the table ${table.name} has no statements for Postgres`);
    for (let start = 0; start < rows.length; start += ROWS_A_STATEMENT)
      await ask(tx, table.statements, rows.slice(start, start + ROWS_A_STATEMENT));
  };

export const postgresStore = (pool: Pool): PostgresStore => ({
  within: ({ tenants }, work) => transaction(pool, tenants, (tx) => work(writeTo(tx))),
});

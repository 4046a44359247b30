// Writes the rows of sinks to Postgres. Each statement of a table has one parameter for each
// column, with up to 5,000 rows.
import type { Pool, PoolClient } from "pg";
import { columnArrays } from "../../infra/postgres/arrays.ts";
import type { Columns, DeclaredTable } from "../../infra/postgres/columns.ts";
import { transaction } from "../../infra/postgres/sql.ts";
import type { Table, Write } from "../../stream/flow.ts";

/** Larger statements are not faster and hold their locks longer. */
const ROWS_A_STATEMENT = 5_000;

export interface Statement<Row> {
  readonly text: string;
  /**
   * Makes the statement's input from the rows. Without it, the input is the rows themselves. The
   * statement does not run on an empty input.
   */
  readonly given?: (rows: readonly Row[]) => readonly object[];
  /**
   * The columns of the input, `$1` and so on in this order (`givenTexts`). Without it, all columns
   * of the table. Parsing unneeded columns would cost the server more than most statements.
   */
  readonly columns?: Columns;
  /**
   * Runs the statement only if the first one wrote all of its rows, or only some because the others
   * existed already.
   */
  readonly behind?: "all" | "some";
}

/** A table with the statements that write to it, one after the other on the same rows. */
export interface PostgresTable<Row> extends Table<Row> {
  readonly columns: Columns;
  readonly statements: readonly Statement<Row>[];
  /** Further tables that the statements fill. */
  readonly fills?: readonly DeclaredTable[];
}

export const postgresTable = <Row extends { readonly client_id: number }>(
  declared: Pick<PostgresTable<Row>, "name" | "key" | "columns" | "fills" | "unhashed" | "isBesideFigures">,
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
   * Runs `work` in one transaction that sees only `tenants`, so its writes are all stored or none
   * is. `token` is not used, because rows are idempotent by key. Throws the server's error with its
   * SQLSTATE in `code`; a deferred check throws at the end of the transaction.
   */
  readonly within: (
    batch: { readonly tenants: readonly number[]; readonly token: string },
    work: (write: Write) => Promise<void>,
  ) => Promise<void>;
}

export const isPostgresTable = (table: { readonly name: string }): table is PostgresTable<object> =>
  "statements" in table;

/**
 * The statements are planned each time, because a plan made on empty tables would be kept while
 * they grow.
 */
const ask = async (tx: PoolClient, table: PostgresTable<object>, rows: readonly object[]): Promise<void> => {
  let written: "all" | "some" | undefined;
  for (const { text, given, columns = table.columns, behind } of table.statements) {
    if (behind !== undefined && behind !== written) continue;
    const needed = given === undefined ? rows : given(rows);
    if (needed.length === 0) continue;
    const { rowCount } = await tx.query(text, [...columnArrays(needed, Object.keys(columns))]);
    written ??= rowCount === rows.length ? "all" : "some";
  }
};

const writeTo =
  (tx: PoolClient): Write =>
  async (table, rows) => {
    if (!isPostgresTable(table)) throw new Error(`the table ${table.name} has no statements for Postgres`);
    for (let start = 0; start < rows.length; start += ROWS_A_STATEMENT)
      await ask(tx, table, rows.slice(start, start + ROWS_A_STATEMENT) as readonly object[]);
  };

export const postgresStore = (pool: Pool): PostgresStore => ({
  within: ({ tenants }, work) => transaction(pool, tenants, (tx) => work(writeTo(tx))),
});

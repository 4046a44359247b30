// How a sink's rows get into Postgres: named statements, each with one JSON parameter that holds up
// to 5,000 rows.
import type { Pool, PoolClient } from "pg";
import { transaction } from "../../infra/postgres/sql.ts";
import type { Write } from "../../stream/flow.ts";
import { rollupMarkStatements } from "../analytics/rollup-mark-statements.ts";
import { conversionStatements } from "../conversions/statements.ts";
import { identityEdgeStatements } from "../identity/statements.ts";
import { ledgerStatements } from "../ledger/statements.ts";
import { productSaleStatements } from "../product-sales/statements.ts";

/**
 * What a name that `Table.write` uses stands for: statements that run one after the other on the
 * same rows, as `$1`.
 */
export type Statements = Readonly<Record<string, readonly string[]>>;

const statements: Statements = {
  ...identityEdgeStatements,
  ...productSaleStatements,
  ...conversionStatements,
  ...ledgerStatements,
  ...rollupMarkStatements,
};

/** Larger statements gain nothing and hold their locks longer. */
const ROWS_A_STATEMENT = 5_000;

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

const writeTo =
  (tx: PoolClient): Write =>
  async (name, rows) => {
    const texts = statements[name];
    if (texts === undefined) throw new Error(`Postgres has no statement ${name} that a sink uses`);
    for (let start = 0; start < rows.length; start += ROWS_A_STATEMENT) {
      const values = [JSON.stringify(rows.slice(start, start + ROWS_A_STATEMENT))];
      // Planned each time, about a millisecond: a plan that was made when the tables were empty
      // would be kept while they grow.
      for (const text of texts) await tx.query(text, values);
    }
  };

export const postgresStore = (pool: Pool): PostgresStore => ({
  within: ({ tenants }, work) => transaction(pool, tenants, (tx) => work(writeTo(tx))),
});

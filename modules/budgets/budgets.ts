// What clients want to spend in a month: one budget a month, on everything or on a segment.
import type { PoolClient } from "pg";
import { sql } from "../../infra/postgres/sql.ts";

export interface BudgetKey {
  readonly client_id: number;
  readonly year: number;
  readonly month: number;
  /** Null: all segments. */
  readonly segment: string | null;
}
export interface SavedBudget {
  readonly budget_id: number;
  readonly version: number;
}

/**
 * Sets the amount of a budget inside a transaction that sees its client; note and what happens at
 * 100 % stay as they are.
 */
export const setBudget = async (
  tx: PoolClient,
  { client_id, year, month, segment }: BudgetKey,
  { amount_minor, currency }: { readonly amount_minor: bigint; readonly currency: string },
): Promise<SavedBudget> => {
  const { rows } = await tx.query<SavedBudget>(sql`
    insert into relo_budgets as known (client_id, year, month, segment, amount_minor, currency)
    values (${client_id}, ${year}, ${month}, ${segment}, ${amount_minor}, ${currency})
    on conflict (client_id, year, month, segment) do update set version = known.version + 1,
      amount_minor = excluded.amount_minor, currency = excluded.currency, updated_at = clock_timestamp()
    returning budget_id, version`);
  return rows[0]!;
};

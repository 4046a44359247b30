// Monthly budgets: the planned spend of a client in a month, in total or for one segment.
import type { PoolClient } from "pg";
import { pageOfRows, type RowsQuery } from "../../../infra/postgres/rows.ts";
import { type Sql, sql } from "../../../infra/postgres/sql.ts";

export interface BudgetKey {
  readonly client_id: number;
  readonly year: number;
  readonly month: number;
  /** Null: all segments. */
  readonly segment: string | null;
}
export interface BudgetAmount {
  readonly amount_minor: bigint;
  readonly currency: string;
  /** Undefined: keeps the stored note. */
  readonly note?: string | null | undefined;
  /** Undefined: keeps the stored value, which is "alert" at first. */
  readonly on_overspend?: "alert" | "stop" | undefined;
}
export interface SavedBudget {
  readonly budget_id: number;
  readonly version: number;
}

/** Sets a budget inside a transaction that sees its client. */
export const setBudget = async (
  tx: PoolClient,
  { client_id, year, month, segment }: BudgetKey,
  { amount_minor, currency, note, on_overspend }: BudgetAmount,
): Promise<SavedBudget> => {
  const keptNote = note === undefined ? sql`known.note` : sql`excluded.note`;
  const keptEnd = on_overspend === undefined ? sql`known.on_overspend` : sql`excluded.on_overspend`;
  const { rows } = await tx.query<SavedBudget>(sql`
    insert into relo_budgets as known (client_id, year, month, segment, amount_minor, currency, note, on_overspend)
    values (${client_id}, ${year}, ${month}, ${segment}, ${amount_minor}, ${currency}, ${note ?? null},
      ${on_overspend ?? "alert"})
    on conflict (client_id, year, month, segment) do update set version = known.version + 1,
      amount_minor = excluded.amount_minor, currency = excluded.currency, note = ${keptNote},
      on_overspend = ${keptEnd}, updated_at = clock_timestamp()
    returning budget_id, version`);
  return rows[0]!;
};

export interface BudgetFilter {
  readonly client_id: number;
  readonly year?: number | undefined;
  readonly month?: number | undefined;
  /** Null: budgets for all segments; undefined: every budget. */
  readonly segment?: string | null | undefined;
}

/** `amount` is in minor units; `spentOf` returns the spend so far. */
export const budgetRows = ({ client_id, year, month, segment }: BudgetFilter): RowsQuery => {
  const given: readonly (Sql | undefined)[] = [
    sql`b.client_id = ${client_id}`,
    year === undefined ? undefined : sql`b.year = ${year}`,
    month === undefined ? undefined : sql`b.month = ${month}`,
    segment === undefined ? undefined : sql`b.segment is not distinct from ${segment}`,
  ];
  return {
    columns: {
      id: sql`b.budget_id`,
      client_id: sql`b.client_id`,
      year: sql`b.year`,
      month: sql`b.month`,
      segment: sql`b.segment`,
      amount: sql`b.amount_minor`,
      currency: sql`b.currency`,
      note: sql`b.note`,
      on_overspend: sql`b.on_overspend`,
      version: sql`b.version`,
      created_at: sql`b.created_at`,
      updated_at: sql`b.updated_at`,
    },
    from: sql`relo_budgets b`,
    tenant: sql`b.client_id`,
    where: given.filter((part): part is Sql => part !== undefined),
    sorts: { period: { by: sql`(b.year * 12 + b.month)`, type: "int" } },
    id: { by: sql`b.budget_id`, type: "int" },
  };
};

export type BudgetRow = BudgetKey & {
  readonly id: number;
  /** In minor units. */
  readonly amount: bigint;
  readonly currency: string;
  readonly note: string | null;
  readonly on_overspend: "alert" | "stop";
  readonly version: number;
};

/** The budget with this key if its client is among these. */
export const readBudget = async (
  tx: PoolClient,
  key: BudgetKey,
  clients: readonly number[],
  names: readonly string[],
): Promise<BudgetRow | undefined> => {
  const reading = { names, sort: "period", clients };
  return (await pageOfRows(tx, budgetRows(key), reading, { limit: 1 })).rows[0] as BudgetRow | undefined;
};

type SpendingKey = Pick<BudgetRow, "year" | "month" | "segment" | "currency">;

/**
 * Sums the commissions that were booked to the months of these budgets of one client, in minor
 * units and in the order of the budgets. Currencies other than the budget's are left out.
 */
export const spentOf = async (
  tx: PoolClient,
  clientId: number,
  budgets: readonly SpendingKey[],
): Promise<readonly bigint[]> => {
  if (budgets.length === 0) return [];
  const months = [...new Set(budgets.map(({ year, month }) => year * 100 + month))];
  const { rows } = await tx.query<SpendingKey & { readonly spent: bigint }>(sql`
    select period / 100 as year, period % 100 as month, segment, currency, sum(amount_minor)::bigint as spent
    from money_days where client_id = ${clientId} and source = 'ledger' and period = any (${months}::int[])
    group by period, segment, currency`);
  return budgets.map(({ year, month, segment, currency }) =>
    rows
      .filter((row) => row.year === year && row.month === month && row.currency === currency)
      .filter((row) => segment === null || row.segment === segment)
      .reduce((sum, { spent }) => sum + spent, 0n),
  );
};

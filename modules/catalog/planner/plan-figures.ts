// The results of plan lines: conversions and commission of their month, and a forecast.
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { ofWholeDays } from "../../figures/money-days/money-days.ts";
import { type MonthOfYear, paceOf, spanOfMonth } from "../budgets/pace.ts";
import type { PlanLine } from "./plan.ts";

/** A line with the client and the currency of its plan. */
export type PlannedLine = PlanLine & { readonly client_id: number; readonly currency: string };
export interface LineFigures {
  /** Credited conversions with an event in the month, in any currency. */
  readonly conversions: number;
  /** Commission booked to the month in the currency of the plan. */
  readonly commission_minor: bigint;
  readonly share_used: number | null;
  readonly pace: number | null;
  readonly forecast_minor: bigint | null;
  readonly forecast_over: boolean;
}

interface SumRow {
  readonly client_id: number;
  readonly partner_id: number;
  readonly segment: string | null;
  /** Null: the row counts conversions in all currencies. */
  readonly currency: string | null;
  readonly conversions: number;
  readonly commission: bigint;
}

const sumsOf = async (
  tx: PoolClient,
  lines: readonly PlannedLine[],
  { year, month }: MonthOfYear,
): Promise<readonly SumRow[]> => {
  const clients = [...new Set(lines.map(({ client_id }) => client_id))];
  const partners = [...new Set(lines.map(({ partner_id }) => partner_id))];
  const { rows } = await tx.query<SumRow>(sql`
    select client_id, partner_id, segment, currency, 0 as conversions, sum(amount_minor)::bigint as commission
    from money_days
    where client_id = any (${clients}::int[]) and partner_id = any (${partners}::int[])
      and source = 'ledger' and period = ${year * 100 + month}
    group by client_id, partner_id, segment, currency
    union all
    select client_id, partner_id, segment, null, sum(n)::int, 0::bigint from money_days
    where client_id = any (${clients}::int[]) and partner_id = any (${partners}::int[]) and status = 'credited'
      and ${ofWholeDays("conversions", spanOfMonth({ year, month }))}
    group by client_id, partner_id, segment`);
  return rows;
};

const figuresOf = (
  month: MonthOfYear,
  { conversions, spent, budget }: { readonly conversions: number; readonly spent: bigint; readonly budget: bigint },
  at: UnixMs,
): LineFigures => {
  const { share, pace, forecast_minor } = paceOf(month, spent, budget, at);
  return {
    ...{ conversions, commission_minor: spent, share_used: share, pace, forecast_minor },
    forecast_over: forecast_minor !== null && forecast_minor > budget,
  };
};

/**
 * The figures of each line, in order, and of all of them. A line for all segments gets what no
 * other line of its partner gets, so the lines add up. `at` is the time up to which figures are
 * known.
 */
export const lineFigures = async (
  tx: PoolClient,
  lines: readonly PlannedLine[],
  month: MonthOfYear,
  at: UnixMs,
): Promise<{ readonly lines: readonly LineFigures[]; readonly total: LineFigures }> => {
  const rows = lines.length === 0 ? [] : await sumsOf(tx, lines, month);
  const keyOf = (client: number, partner: number, segment: string | null) => `${client} ${partner} ${segment ?? ""}`;
  const places = new Map(lines.map((one, n) => [keyOf(one.client_id, one.partner_id, one.segment), n]));
  const sums = lines.map(({ budget_minor }) => ({ conversions: 0, spent: 0n, budget: budget_minor }));
  for (const { client_id, partner_id, segment, currency, conversions, commission } of rows) {
    const n = places.get(keyOf(client_id, partner_id, segment)) ?? places.get(keyOf(client_id, partner_id, null));
    if (n === undefined || (currency !== null && currency !== lines[n]!.currency)) continue;
    sums[n]!.conversions += conversions;
    sums[n]!.spent += commission;
  }
  const total = sums.reduce(
    (all, one) => ({
      conversions: all.conversions + one.conversions,
      spent: all.spent + one.spent,
      budget: all.budget + one.budget,
    }),
    { conversions: 0, spent: 0n, budget: 0n },
  );
  return { lines: sums.map((sum) => figuresOf(month, sum, at)), total: figuresOf(month, total, at) };
};

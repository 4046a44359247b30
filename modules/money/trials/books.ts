// Reads the booked money of the months that a trial would move, and the budgets that it would
// break.
import type { PoolClient } from "pg";
import { monthsAfter, startOfDay } from "../../../domain/calendar.ts";
import { divideHalfEven, toDecimal } from "../../../domain/money.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { isClosed } from "../reprocess/difference.ts";
import type { Delta, SegmentDelta, Summary } from "./summary.ts";

export interface MoneyRow {
  readonly partner_id: number;
  readonly year: number;
  readonly month: number;
  readonly currency: string;
  readonly before: string;
  readonly after: string;
  readonly delta: string;
  readonly closed: boolean;
}

/** Commission of each partner and month that would change, as booked and after the change. */
export const moneyRows = async (
  tx: PoolClient,
  clientId: number,
  { deltas }: Summary,
  now: UnixMs,
): Promise<readonly MoneyRow[]> => {
  const { rows } = await tx.query<Delta>(sql`
    select partner_id, period / 100 as year, period % 100 as month, currency, sum(amount_minor)::bigint as amount_minor
    from money_days where client_id = ${clientId} and source = 'ledger'
      and partner_id = any (${deltas.map(({ partner_id }) => partner_id)}::int[])
    group by 1, 2, 3, 4`);
  const booked = new Map(rows.map((row) => [keyOf(row), row.amount_minor]));
  return deltas.map((delta) => {
    const { partner_id, year, month, currency, amount_minor } = delta;
    const before = booked.get(keyOf(delta)) ?? 0n;
    return {
      ...{ partner_id, year, month, currency, closed: isClosed(year, month, now) },
      before: toDecimal(before, currency),
      after: toDecimal(before + amount_minor, currency),
      delta: toDecimal(amount_minor, currency),
    };
  });
};
const keyOf = ({ partner_id, year, month, currency }: Omit<Delta, "amount_minor">): string =>
  `${partner_id} ${year} ${month} ${currency}`;

export interface BrokenBudget {
  readonly year: number;
  readonly month: number;
  readonly segment: string | null;
  readonly currency: string;
  readonly budget: string;
  readonly forecast_after: string;
}
interface Budget {
  readonly year: number;
  readonly month: number;
  readonly segment: string | null;
  readonly currency: string;
  readonly amount_minor: bigint;
  readonly spent_minor: bigint;
}

/** A month is forecast once a tenth of it has passed. */
const SHARE = 10;

/** Extrapolates a month's amount at its current pace; null: too little of it has passed. */
const forecastOf = (minor: bigint, { year, month }: Pick<Budget, "year" | "month">, now: UnixMs): bigint | null => {
  const first = `${year}-${String(month).padStart(2, "0")}-01`;
  const [start, end] = [startOfDay(first), startOfDay(monthsAfter(first, 1))];
  if (now >= end) return minor;
  return (now - start) * SHARE < end - start ? null : divideHalfEven(minor * BigInt(end - start), BigInt(now - start));
};

/** Budgets that hold now and would be overspent. */
export const brokenBudgets = async (
  tx: PoolClient,
  clientId: number,
  { bySegment }: Summary,
  now: UnixMs,
): Promise<readonly BrokenBudget[]> => {
  if (bySegment.length === 0) return [];
  const { rows } = await tx.query<Budget>(sql`
    select b.year, b.month, b.segment, b.currency, b.amount_minor,
      coalesce(sum(e.amount_minor), 0)::bigint as spent_minor
    from relo_budgets b left join money_days e on e.client_id = b.client_id and e.source = 'ledger'
      and e.period = b.year * 100 + b.month and e.currency = b.currency
      and (b.segment is null or e.segment = b.segment)
    where b.client_id = ${clientId} and b.year = any (${bySegment.map(({ year }) => year)}::int[])
    group by b.budget_id order by b.year, b.month, b.segment nulls first`);
  return rows.flatMap((budget) => {
    const { year, month, segment, currency } = budget;
    const [limit, spent] = [budget.amount_minor, budget.spent_minor];
    const added = bySegment.filter((one) => isOf(one, budget)).reduce((sum, one) => sum + one.amount_minor, 0n);
    const before = forecastOf(spent, budget, now);
    const after = forecastOf(spent + added, budget, now);
    if (before === null || after === null || before > limit || after <= limit) return [];
    const decimal = (minor: bigint) => toDecimal(minor, currency);
    return [{ ...{ year, month, segment, currency }, budget: decimal(limit), forecast_after: decimal(after) }];
  });
};
const isOf = (one: SegmentDelta, { year, month, segment, currency }: Budget): boolean =>
  one.year === year &&
  one.month === month &&
  one.currency === currency &&
  (segment === null || one.segment === segment);

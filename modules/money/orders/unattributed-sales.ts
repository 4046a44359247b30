// Lists sale lines that no partner is credited with, without copies and refunds.
import type { PoolClient } from "pg";
import { codesByDigits } from "../../../domain/money.ts";
import type { RowsQuery } from "../../../infra/postgres/rows.ts";
import { type Sql, sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { missing } from "../../base/refusal.ts";
import { ofWholeDays } from "../../figures/money-days/money-days.ts";

export interface UnattributedFilter {
  readonly client_id?: number | undefined;
  readonly reason?: string | undefined;
  readonly segment?: string | undefined;
  /** A decimal in the currency of each line. */
  readonly min_value?: string | undefined;
  /** Inclusive start and exclusive end. */
  readonly from: UnixMs;
  readonly to: UnixMs;
}

/** Minor units of one major unit: 100 for most currencies. */
const scale: Sql = [...codesByDigits].reduce(
  (otherwise, [digits, codes]) =>
    digits === 2
      ? otherwise
      : sql`case when s.currency = any (${codes}) then ${10 ** digits}::numeric else ${otherwise} end`,
  sql`100::numeric`,
);

/** The condition for all figures below, credited or not. */
const sold = ({ client_id, segment, min_value, from, to }: UnattributedFilter): readonly Sql[] => [
  sql`s.t <> 'refund' and s.merged_into is null`,
  sql`s.occurred_at >= ${new Date(from)} and s.occurred_at < ${new Date(to)}`,
  client_id === undefined ? sql`true` : sql`s.client_id = ${client_id}`,
  segment === undefined ? sql`true` : sql`s.segment = ${segment}`,
  min_value === undefined ? sql`true` : sql`s.value_minor >= ${min_value}::numeric * ${scale}`,
];
const unattributed = ({ reason }: UnattributedFilter): Sql =>
  reason === undefined
    ? sql`s.credit_status = 'unattributed'`
    : sql`s.credit_status = 'unattributed' and s.credit_reason = ${reason}`;

/** `value` and `refunded` are in minor units; the caller adds id, source and candidate. */
export const unattributedRows = (filter: UnattributedFilter): RowsQuery => ({
  columns: {
    client_id: sql`s.client_id`,
    order_id: sql`s.order_id`,
    event_id: sql`s.event_id`,
    day: sql`to_char(s.occurred_at at time zone 'America/Mexico_City', 'YYYY-MM-DD')`,
    occurred_at: sql`s.occurred_at`,
    value: sql`coalesce(s.value_minor, 0)`,
    refunded: sql`coalesce(s.refunded_minor, 0)`,
    currency: sql`coalesce(s.currency, 'MXN')`,
    segment: sql`s.segment`,
    product_id: sql`s.product_id`,
    reason: sql`s.credit_reason`,
  },
  from: sql`product_sales s`,
  tenant: sql`s.client_id`,
  where: [...sold(filter), unattributed(filter)],
  sorts: {
    occurred_at: { by: sql`s.occurred_at`, type: "timestamptz" },
    value: { by: sql`coalesce(s.value_minor, 0)`, type: "bigint" },
  },
  id: { by: sql`s.event_id`, type: "uuid" },
});

export interface SumOfSales {
  readonly currency: string;
  readonly reason: string | null;
  /** True if the filter includes these lines; the other lines were also sold. */
  readonly isMeant: boolean;
  readonly count: number;
  readonly value_minor: bigint;
}

/** The span consists of whole days. */
const countedDays = ({ client_id, segment, reason, from, to }: UnattributedFilter): Sql => sql`
  select client_id, currency, n, amount_minor as value_minor, reason,
    status = 'unattributed' and ${reason === undefined ? sql`true` : sql`reason = ${reason}`} as is_meant
  from money_days where ${ofWholeDays("sales", { from, to })}
    and ${client_id === undefined ? sql`true` : sql`client_id = ${client_id}`}
    and ${segment === undefined ? sql`true` : sql`segment = ${segment}`}`;

/** With a minimum value every line must be read. */
const countedLines = (filter: UnattributedFilter): Sql => sql`
  select s.client_id, coalesce(s.currency, 'MXN') as currency, 1 as n, coalesce(s.value_minor, 0) as value_minor,
    s.credit_reason as reason, ${unattributed(filter)} as is_meant
  from product_sales s where ${sold(filter).reduce((all, one) => sql`${all} and (${one})`)}`;

/** Sums over all lines of the filter, and over the other sold lines. */
export const sumsOfSales = async (
  tx: PoolClient,
  clients: readonly number[],
  filter: UnattributedFilter,
): Promise<readonly SumOfSales[]> => {
  const counted = filter.min_value === undefined ? countedDays(filter) : countedLines(filter);
  const { rows } = await tx.query<SumOfSales>(sql`
    select currency, is_meant as "isMeant", case when is_meant then reason end as reason, sum(n)::int as count,
      sum(value_minor)::bigint as value_minor
    from (${counted}) counted where client_id = any (${clients}::int[]) group by 1, 2, 3 having sum(n) <> 0
    order by 1, 2, 3`);
  return rows;
};

const USUAL_CURRENCY = "MXN";

/**
 * The currency in which sums are given first: that of the client; without a client the usual one.
 * Throws RefusalError: missing when the client is not among these.
 */
export const currencyOfSums = async (
  tx: PoolClient,
  clients: readonly number[],
  clientId: number | undefined,
): Promise<string> => {
  if (clientId === undefined) return USUAL_CURRENCY;
  const { rows } = await tx.query<{ currency: string }>(sql`
    select currency from clients where client_id = ${clientId} and client_id = any (${clients}::int[])
    order by version desc limit 1`);
  if (rows[0] === undefined) throw missing();
  return rows[0].currency;
};

// What was sold and earned: by month for the `report` command, in total for the live screen.
import type { Pool, PoolClient } from "pg";
import { toDecimal } from "../../domain/money.ts";
import { weakOrderIds } from "../../domain/order-id.ts";
import { transaction } from "../../infra/postgres/sql.ts";

/** Amounts are decimal texts with the digits of the currency. */
export interface ReportRow {
  /** YYYY-MM in America/Mexico_City. */
  readonly month: string;
  readonly currency: string;
  readonly orders: number;
  /** Gross: what was sold in this month. */
  readonly revenue: string;
  /** What was given back of it since, whenever that was. */
  readonly refunded: string;
  /** What the ledger says partners earned by sales of this month, less what was taken back. */
  readonly commission: string;
}

export interface Amount {
  readonly currency: string;
  readonly amount: string;
}
export interface ClientSummary {
  readonly client_id: number;
  readonly conversions: number;
  readonly revenue: readonly Amount[];
  readonly commission: readonly Amount[];
}
export interface Summary {
  readonly clients: readonly ClientSummary[];
  /** Sum of all ledger lines of these clients, by currency: zero, always. */
  readonly balance: readonly Amount[];
  readonly isBalanced: boolean;
}

/**
 * What settle gave back of each line stands in its row. An order with a line that was settled
 * before that was kept is counted by its refunds: each by order, at most what was sold, in whatever
 * order they came. MXN is what an event without a currency is in (docs/design/contracts.md,
 * "Answers"). An order belongs to the month of its first line; sales whose order id is a
 * placeholder stand each by itself.
 */
const byMonth = `
with said as (
  select t, case when lower(order_id) = any ($2) then event_id::text else coalesce(order_id, event_id::text) end
    as order_key, product_id, currency, occurred_at, value_minor, refunded_minor
  from product_sales where client_id = $1 and merged_into is null
), sold_line as (
  select order_key, product_id, coalesce(currency, 'MXN') as currency, occurred_at, coalesce(value_minor, 0) as value,
    refunded_minor
  from said where t <> 'refund'
), unkept as (
  select order_key from sold_line group by 1 having bool_or(refunded_minor is null)
), line as (
  select order_key, product_id, currency, min(occurred_at) as occurred_at, sum(value) as value
  from sold_line join unkept using (order_key) group by 1, 2, 3
), refund as (
  select order_key, product_id, currency, bool_or(value_minor is null) as is_full, sum(value_minor) as amount
  from said join unkept using (order_key) where t = 'refund' group by 1, 2, 3
), refund_of_line as (
  select order_key, product_id, line.currency, bool_or(is_full) as is_full, sum(amount) as amount
  from refund join line using (order_key, product_id)
  where is_full or coalesce(refund.currency, line.currency) = line.currency
  group by 1, 2, 3
), sale as (
  select order_key, currency, min(occurred_at) as occurred_at, sum(value) as value,
    sum(case when is_full then value else least(value, coalesce(amount, 0)) end) as refunded
  from line left join refund_of_line using (order_key, product_id, currency)
  group by 1, 2
), refund_of_order as (
  select order_key, sale.currency, bool_or(is_full) as is_full, sum(amount) as amount
  from refund join sale using (order_key)
  where product_id is null and (is_full or coalesce(refund.currency, sale.currency) = sale.currency)
  group by 1, 2
), counted as (
  select order_key, currency, min(occurred_at) as occurred_at, sum(value) as value, sum(refunded_minor) as refunded
  from sold_line left join unkept using (order_key) where unkept.order_key is null group by 1, 2
  union all
  select order_key, currency, occurred_at, value,
    case when is_full then value else least(value, refunded + coalesce(amount, 0)) end
  from sale left join refund_of_order using (order_key, currency)
), sold as (
  select to_char(occurred_at at time zone 'America/Mexico_City', 'YYYY-MM') as month, currency, count(*)::int as orders,
    sum(value)::bigint as revenue, sum(refunded)::bigint as refunded
  from counted group by 1, 2
), earned as (
  select to_char(make_date(year, month, 1), 'YYYY-MM') as month, currency, sum(amount_minor)::bigint as commission
  from ledger_entries where client_id = $1
  group by 1, 2
)
select month, currency, coalesce(orders, 0) as orders, coalesce(revenue, 0) as revenue,
  coalesce(refunded, 0) as refunded,
  coalesce(commission, 0) as commission
from sold full join earned using (month, currency)
where orders is not null or commission <> 0
order by month, currency`;

interface MonthRow {
  readonly month: string;
  readonly currency: string;
  readonly orders: number;
  readonly revenue: bigint;
  readonly refunded: bigint;
  readonly commission: bigint;
}

/**
 * Orders, gross revenue, refunds and commissions of one client, by month of the sale and currency,
 * oldest first.
 */
export const report = (pool: Pool, clientId: number, _by: "month"): Promise<{ readonly rows: readonly ReportRow[] }> =>
  transaction(
    pool,
    [clientId],
    async (tx) => {
      // Tables that have just grown look empty to the planner, and nested loops over 7,000 sales
      // took it 17 s; hashes cost the same whatever it believes.
      await tx.query("set local enable_nestloop = off");
      const { rows } = await tx.query<MonthRow>(byMonth, [clientId, weakOrderIds]);
      return {
        rows: rows.map(({ month, currency, orders, revenue, refunded, commission }) => ({
          month,
          currency,
          orders,
          revenue: toDecimal(revenue, currency),
          refunded: toDecimal(refunded, currency),
          commission: toDecimal(commission, currency),
        })),
      };
    },
    { isReadOnly: true },
  );

interface SumRow {
  readonly client_id: number;
  readonly currency: string;
  readonly amount: bigint;
}

const sums = async (
  tx: PoolClient,
  text: string,
  clientIds: readonly number[],
): Promise<(clientId: number) => readonly Amount[]> => {
  const { rows } = await tx.query<SumRow>(text, [clientIds]);
  return (clientId) =>
    rows
      .filter((row) => row.client_id === clientId)
      .map(({ currency, amount }) => ({ currency, amount: toDecimal(amount, currency) }));
};

const soldByClient = `
select client_id, currency, sum(value_minor)::bigint as amount from product_sales
where client_id = any ($1) and t <> 'refund' and merged_into is null and value_minor is not null
group by 1, 2 order by 1, 2`;
const earnedByClient = `
select client_id, currency, sum(amount_minor)::bigint as amount from ledger_entries where client_id = any ($1)
  group by 1, 2 order by 1, 2`;
const linesByCurrency = `
select currency, sum(amount_minor)::bigint as amount from ledger_lines where client_id = any ($1) group by 1
  order by 1`;
const conversionsByClient = `
select client_id, count(*)::int as conversions from conversions where client_id = any ($1) and status = 'credited'
  group by 1`;

/**
 * Credited conversions, gross revenue and net commissions of each client, and whether the ledger of
 * all of them balances; read at one moment.
 */
export const summary = (pool: Pool, clientIds: readonly number[]): Promise<Summary> =>
  transaction(
    pool,
    clientIds,
    async (tx) => {
      const revenueOf = await sums(tx, soldByClient, clientIds);
      const commissionOf = await sums(tx, earnedByClient, clientIds);
      const { rows: counted } = await tx.query<{ client_id: number; conversions: number }>(conversionsByClient, [
        clientIds,
      ]);
      const { rows: lines } = await tx.query<{ currency: string; amount: bigint }>(linesByCurrency, [clientIds]);
      return {
        clients: clientIds.map((clientId) => ({
          client_id: clientId,
          conversions: counted.find((row) => row.client_id === clientId)?.conversions ?? 0,
          revenue: revenueOf(clientId),
          commission: commissionOf(clientId),
        })),
        balance: lines.map(({ currency, amount }) => ({ currency, amount: toDecimal(amount, currency) })),
        isBalanced: lines.every(({ amount }) => amount === 0n),
      };
    },
    { isReadOnly: true },
  );

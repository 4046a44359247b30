// Reads sales and earnings: by period, partner, campaign or segment for the `report` command, in
// total for the live screen.
import type { Pool, PoolClient } from "pg";
import { placeholderTexts, zerosForm } from "../../../domain/ids.ts";
import { toDecimal } from "../../../domain/money.ts";
import { named, type Sql, sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

export const bys = ["month", "day", "partner", "campaign", "segment"] as const;
export type ReportBy = (typeof bys)[number];

/** Amounts are decimal texts with the digits of the currency. */
interface Figures {
  readonly currency: string;
  readonly orders: number;
  /** Gross sales. */
  readonly revenue: string;
  /** Refunds of these sales, whenever they came. */
  readonly refunded: string;
  /** The ledger's net amount that partners earned from these sales, after reversals. */
  readonly commission: string;
}
/**
 * The group is YYYY-MM or YYYY-MM-DD in America/Mexico_City, a segment, or the id of a partner or
 * campaign with its `name`; "none" for sales without one.
 */
export type ReportRow<Group extends ReportBy = "month"> = Readonly<Record<Group, string>> &
  Figures & {
    readonly name?: string;
    /** Orders that count as the larger of their total and their lines. Absent: there are none. */
    readonly disputed_total?: number;
  };

/** Limits a report to sales of a partner, campaign, segment or span. */
export interface ReportFilter {
  readonly partner_id?: number | undefined;
  readonly campaign_id?: number | undefined;
  readonly segment?: string | undefined;
  readonly from?: UnixMs | undefined;
  /** Exclusive. */
  readonly to?: UnixMs | undefined;
}

export interface Amount {
  readonly currency: string;
  readonly amount: string;
}
interface ClientSummary {
  readonly client_id: number;
  readonly conversions: number;
  readonly revenue: readonly Amount[];
  readonly commission: readonly Amount[];
}
export interface Summary {
  readonly clients: readonly ClientSummary[];
  /** Sum of all ledger lines of these clients, by currency; always zero. */
  readonly balance: readonly Amount[];
  readonly isBalanced: boolean;
}

/**
 * Refunds come from each line's own row, where settle stores them. An order with a line that was
 * settled before rows stored refunds is computed from its refund events: summed by order, at most
 * what was sold, in whatever order they came.
 * An event without a currency counts as MXN (docs/design/contracts.md, "Answers"). An order belongs
 * to the month or day of its first line. Sales whose order id is a placeholder each count as an
 * order. An order whose lines are credited to several partners counts once for each of them.
 * An order with a total and lines of another worth (docs/design/money.md, rule 28) counts as the
 * larger of both: `larger` leaves the other out, and what was given back of both fills its lines
 * one after another.
 */
const statement = (clientId: number, by: ReportBy, filter: ReportFilter): Sql => {
  const first = sql`min(occurred_at) over (partition by order_key, coalesce(currency, 'MXN'))`;
  const monthOf = (at: Sql): Sql => sql`to_char(${at} at time zone 'America/Mexico_City', 'YYYY-MM')`;
  const dayOf = (at: Sql): Sql => sql`to_char(${at} at time zone 'America/Mexico_City', 'YYYY-MM-DD')`;
  const at = sql`occurred_at`;
  const groups: Readonly<Record<ReportBy, { readonly sold: Sql; readonly earned: Sql }>> = {
    month: { sold: monthOf(first), earned: sql`to_char(make_date(year, month, 1), 'YYYY-MM')` },
    day: { sold: dayOf(first), earned: dayOf(at) },
    partner: { sold: sql`coalesce(partner_id::text, 'none')`, earned: sql`partner_id::text` },
    campaign: {
      sold: sql`coalesce(campaign_id::text, 'none')`,
      earned: sql`coalesce(campaign_id::text, 'none')`,
    },
    segment: { sold: sql`coalesce(segment, 'none')`, earned: sql`coalesce(segment, 'none')` },
  };
  const { partner_id, campaign_id, segment, from, to } = filter;
  const same = (column: Sql, value: unknown): Sql => (value === undefined ? sql`true` : sql`${column} = ${value}`);
  const within = (time: Sql): Sql => sql`(${from === undefined ? sql`true` : sql`${time} >= ${new Date(from)}`})
    and (${to === undefined ? sql`true` : sql`${time} < ${new Date(to)}`})`;
  const kept = (time: Sql): Sql => sql`${same(sql`partner_id`, partner_id)}
    and ${same(sql`campaign_id`, campaign_id)} and ${same(sql`segment`, segment)} and ${within(time)}`;
  return sql`
with said as (
  select t, case when lower(order_id) = any (${placeholderTexts}) or order_id ~ ${zerosForm} then event_id::text
      else coalesce(order_id, event_id::text) end as order_key,
    event_id, product_id, currency, occurred_at, value_minor, refunded_minor, partner_id, campaign_id, segment
  from product_sales where client_id = ${clientId} and merged_into is null
), all_lines as (
  select order_key, event_id, product_id, coalesce(currency, 'MXN') as currency, occurred_at,
    coalesce(value_minor, 0) as value, refunded_minor, partner_id, campaign_id, segment, ${first} as first_at,
    ${groups[by].sold} as part
  from said where t <> 'refund'
), compared as (
  select *, sum(value) filter (where product_id is null) over both_of as of_total,
    sum(value) filter (where product_id is not null) over both_of as of_lines, sum(refunded_minor) over both_of as back
  from all_lines window both_of as (partition by order_key, currency)
), larger as (
  select *, of_total is not null and of_lines is not null as is_disputed,
    coalesce(sum(value) over (partition by order_key, currency order by occurred_at, event_id
      rows between unbounded preceding and 1 preceding), 0) as before
  from compared
  where of_total is null or of_lines is null or (product_id is null) = (of_total > of_lines)
), sold_lines as (
  select order_key, product_id, currency, occurred_at, value, partner_id, campaign_id, segment, first_at, part,
    is_disputed, case when is_disputed and refunded_minor is not null then least(value, greatest(0, back - before))
      else refunded_minor end as refunded_minor
  from larger
), sold_line as (
  select * from sold_lines where ${kept(sql`first_at`)}
), unkept as (
  select order_key from sold_line group by 1 having bool_or(refunded_minor is null)
), part_of_order as (
  select order_key, currency, min(part) as part, bool_or(is_disputed) as is_disputed
  from sold_line join unkept using (order_key) group by 1, 2
), line as (
  select order_key, product_id, currency, sum(value) as value
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
  select order_key, currency, sum(value) as value,
    sum(case when is_full then value else least(value, coalesce(amount, 0)) end) as refunded
  from line left join refund_of_line using (order_key, product_id, currency)
  group by 1, 2
), refund_of_order as (
  select order_key, sale.currency, bool_or(is_full) as is_full, sum(amount) as amount
  from refund join sale using (order_key)
  where product_id is null and (is_full or coalesce(refund.currency, sale.currency) = sale.currency)
  group by 1, 2
), counted as (
  select order_key, currency, part, bool_or(is_disputed) as is_disputed, sum(value) as value,
    sum(refunded_minor) as refunded
  from sold_line left join unkept using (order_key) where unkept.order_key is null group by 1, 2, 3
  union all
  select order_key, currency, part, is_disputed, value,
    case when is_full then value else least(value, refunded + coalesce(amount, 0)) end
  from sale join part_of_order using (order_key, currency) left join refund_of_order using (order_key, currency)
), sold as (
  select part, currency, count(*)::int as orders, count(*) filter (where is_disputed)::int as disputed,
    sum(value)::bigint as revenue, sum(refunded)::bigint as refunded
  from counted group by 1, 2
), earned as (
  select ${groups[by].earned} as part, currency, sum(amount_minor)::bigint as commission
  from ledger_entries where client_id = ${clientId} and ${kept(at)}
  group by 1, 2
)
select part, currency, coalesce(orders, 0) as orders, coalesce(disputed, 0) as disputed,
  coalesce(revenue, 0) as revenue, coalesce(refunded, 0) as refunded, coalesce(commission, 0) as commission
from sold full join earned using (part, currency)
where orders is not null or commission <> 0
order by ${by === "partner" || by === "campaign" ? sql`length(part), part` : sql`part`}, currency`;
};

interface PartRow {
  readonly part: string;
  readonly currency: string;
  readonly orders: number;
  readonly disputed: number;
  readonly revenue: bigint;
  readonly refunded: bigint;
  readonly commission: bigint;
}

/** Names of partners or campaigns of the client, by id. */
const namesIn = async (tx: PoolClient, by: ReportBy): Promise<ReadonlyMap<string, string>> => {
  if (by !== "partner" && by !== "campaign") return new Map();
  const [table, id] = [named(`${by}s`), named(`${by}_id`)];
  const { rows } = await tx.query<{ id: string; name: string }>(sql`
    select distinct on (${id}) ${id}::text as id, name from ${table} order by ${id}, version desc`);
  return new Map(rows.map((row) => [row.id, row.name]));
};

/**
 * Returns orders, gross revenue, refunds and commissions of one client by currency, and by month or
 * day of the sale (oldest first), or by credited partner, campaign or segment.
 */
export const report = <Group extends ReportBy>(
  pool: Pool,
  clientId: number,
  by: Group,
  filter: ReportFilter = {},
): Promise<{ readonly rows: readonly ReportRow<Group>[] }> =>
  transaction(
    pool,
    [clientId],
    async (tx) => {
      // The planner takes tables that have just grown for empty and chose nested loops: 17 s for
      // 7,000 sales. Hash joins cost the same whatever the planner estimates.
      await tx.query("set local enable_nestloop = off");
      const { rows } = await tx.query<PartRow>(statement(clientId, by, filter));
      const names = await namesIn(tx, by);
      return {
        rows: rows.map(({ part, currency, orders, disputed, revenue, refunded, commission }) => ({
          ...({ [by]: part } as Record<Group, string>),
          ...(names.has(part) && { name: names.get(part)! }),
          currency,
          orders,
          ...(disputed > 0 && { disputed_total: disputed }),
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
 * Returns credited conversions, gross revenue and net commissions of each client, and whether the
 * ledger of all of them balances. All are read in one snapshot.
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

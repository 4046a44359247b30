// What was sold, credited and earned in two periods, in total and by one thing at a time: one
// statement over the tables of sales, conversions and the ledger.
import type { PoolClient } from "pg";
import { weakOrderIds } from "../../domain/order-id.ts";
import { type Sql, sql } from "../../infra/postgres/sql.ts";
import type { Periods } from "./periods.ts";
import { ratio } from "./ratios.ts";

/** What figures may be split by. */
export type By = "day" | "partner_id" | "campaign_id" | "event_type" | "segment";
/** Where figures come from; who must not see revenue never has "sold" in the statement. */
export type Kind = "sold" | "credited" | "earned";
export type Period = "current" | "previous";

export interface Asked {
  readonly clients: readonly number[];
  readonly partner_id?: number | undefined;
  readonly campaign_id?: number | undefined;
  readonly periods: Periods;
  readonly kinds: readonly Kind[];
  readonly by: readonly By[];
}

/** Of one kind, period and group; without a currency it counts those of all. */
export interface SoldFigure {
  readonly kind: Kind;
  readonly period: Period;
  readonly by: By | "total";
  /** Of the group; null: without one, and in total. */
  readonly value: string | null;
  readonly currency: string | null;
  /** Distinct orders, credited conversions, or entries. */
  readonly n: number;
  /** Gross or commission. */
  readonly amount: bigint;
  readonly refunded: bigint;
}

const ofPeriod = (at: Sql, { current, previous }: Periods): Sql => sql`
  (${at} >= ${new Date(previous.from)} and ${at} < ${new Date(previous.to)}
    or ${at} >= ${new Date(current.from)} and ${at} < ${new Date(current.to)})`;

const inScope = ({ clients, partner_id, campaign_id, periods }: Asked): Sql => {
  const partner = partner_id === undefined ? sql`true` : sql`partner_id = ${partner_id}`;
  const campaign = campaign_id === undefined ? sql`true` : sql`campaign_id = ${campaign_id}`;
  return sql`client_id = any (${clients}::int[]) and ${partner} and ${campaign}
    and ${ofPeriod(sql`occurred_at`, periods)}`;
};

/**
 * Lines that are credited now. An order whose id names none stands for its event, and a line that
 * was settled before refunds were kept has those of its conversion. Orders are compared by a hash
 * of 64 bits, for texts are slow to sort.
 */
const sold = (asked: Asked): Sql => sql`
  select 'sold' as kind, occurred_at, partner_id, campaign_id, t as event_type, segment,
    coalesce(currency, 'MXN') as currency,
    hashtextextended(case when order_id is null or lower(order_id) = any (${weakOrderIds}::text[])
      then event_id::text else client_id || '/' || order_id end, 0) as item,
    coalesce(value_minor, 0) as amount, coalesce(refunded_minor, (
      select max(c.refunded_minor) from conversions c
      where c.partner_id = s.partner_id and c.client_id = s.client_id and c.occurred_at = s.occurred_at
        and c.event_id = s.event_id), 0) as refunded
  from product_sales s
  where t <> 'refund' and merged_into is null and credit_status = 'attributed' and ${inScope(asked)}`;

const credited = (asked: Asked): Sql => sql`
  select 'credited' as kind, occurred_at, partner_id, campaign_id, event_type, segment, currency,
    null::bigint as item, 0::bigint as amount, 0::bigint as refunded
  from conversions where status = 'credited' and ${inScope(asked)}`;

const earned = (asked: Asked): Sql => sql`
  select 'earned' as kind, occurred_at, partner_id, campaign_id, event_type, segment, currency,
    null::bigint as item, amount_minor as amount, 0::bigint as refunded
  from ledger_entries where kind in ('earned', 'reversal', 'adjustment', 'tier_adjustment') and ${inScope(asked)}`;

const sources: Readonly<Record<Kind, (asked: Asked) => Sql>> = { sold, credited, earned };
const plain = (text: string): Sql => ({ text, values: [] });

/** Figures with an event or an amount; those of a group without either are left out. */
export const soldFigures = async (tx: PoolClient, asked: Asked): Promise<readonly SoldFigure[]> => {
  const [first, ...others] = asked.kinds.map((kind) => sources[kind](asked));
  if (first === undefined) return [];
  const said = others.reduce((all, one) => sql`${all} union all ${one}`, first);
  const sets = ["", ...asked.by].flatMap((name) => [`(${name})`, `(${name === "" ? "" : `${name}, `}currency)`]);
  const level = (shown: (name: By) => string) =>
    asked.by.length === 0
      ? "null"
      : `case ${asked.by.map((name) => `when grouping(${name}) = 0 then ${shown(name)}`).join(" ")} end`;
  const by = plain(level((name) => `'${name}'`));
  const value = plain(level((name) => `${name}::text`));
  const { rows } = await tx.query(sql`
    with said as (${said}), placed as (
      select *, (occurred_at at time zone 'America/Mexico_City')::date as day,
        case when occurred_at >= ${new Date(asked.periods.current.from)} then 'current' else 'previous' end as period
      from said)
    select kind, period, ${by} as by, ${value} as value, currency, sum(amount)::text as amount,
      (case kind when 'sold' then count(distinct item) else count(*) end)::int as n, sum(refunded)::text as refunded
    from placed group by kind, period, grouping sets (${plain(sets.join(", "))})`);
  return rows.map((row) => ({
    ...row,
    by: row.by ?? "total",
    amount: BigInt(row.amount),
    refunded: BigInt(row.refunded),
  }));
};

/** Commissions of sales of a span by the state they are in now. */
export interface CommissionState {
  readonly status: string;
  readonly currency: string;
  readonly n: number;
  readonly amount: bigint;
}

export const commissionStates = async (
  tx: PoolClient,
  { clients, partner_id, campaign_id, periods: { current } }: Asked,
): Promise<readonly CommissionState[]> => {
  const { rows } = await tx.query(sql`
    select status, currency, count(*)::int as n, sum(amount_minor)::text as amount from commissions
    where client_id = any (${clients}::int[]) and occurred_at >= ${new Date(current.from)}
      and occurred_at < ${new Date(current.to)}
      and ${partner_id === undefined ? sql`true` : sql`partner_id = ${partner_id}`}
      and ${campaign_id === undefined ? sql`true` : sql`campaign_id = ${campaign_id}`}
    group by 1, 2`);
  return rows.map((row) => ({ ...row, amount: BigInt(row.amount) }));
};

const APPROVED = ["approved", "in_payment", "paid"];
const REFUSED = ["rejected", "reversed"];

/** Of the commissions that were decided on, those that were approved. */
export const approvalRate = (states: readonly CommissionState[]): number | null => {
  const among = (statuses: readonly string[]): number =>
    states.reduce((sum, { status, n }) => (statuses.includes(status) ? sum + n : sum), 0);
  return ratio(among(APPROVED), among(APPROVED) + among(REFUSED));
};

// Reads sales, credits and earnings of two periods, in total and by one group at a time: one
// statement over the daily sums of sales, conversions and the ledger.
import type { PoolClient } from "pg";
import { dayOf } from "../../../domain/calendar.ts";
import { placeholderTexts, zerosForm } from "../../../domain/ids.ts";
import { type Sql, sql } from "../../../infra/postgres/sql.ts";
import { ofWholeDays, restOfLastDay, type Source } from "../money-days/money-days.ts";
import type { Periods } from "./periods.ts";
import { ratio } from "./ratios.ts";

/** The columns by which figures may be grouped. */
export type SplitBy = "day" | "partner_id" | "campaign_id" | "event_type" | "segment";
/** The source of figures. A reader who must not see revenue never has "sold" in the statement. */
export type Kind = "sold" | "credited" | "earned";
export type Period = "current" | "previous";

export interface FiguresQuestion {
  readonly clients: readonly number[];
  readonly partner_id?: number | undefined;
  readonly campaign_id?: number | undefined;
  readonly periods: Periods;
  readonly kinds: readonly Kind[];
  readonly by: readonly SplitBy[];
}

/** A figure of one kind, period and group. Without a currency it counts all currencies. */
export interface SoldFigure {
  readonly kind: Kind;
  readonly period: Period;
  readonly by: SplitBy | "total";
  /** The value of the group; null for rows without one, and for the total. */
  readonly value: string | null;
  readonly currency: string | null;
  /** Distinct orders, credited conversions, or entries. */
  readonly n: number;
  /** Gross revenue or commission. */
  readonly amount: bigint;
  readonly refunded: bigint;
}

const inScope = ({ clients, partner_id, campaign_id }: FiguresQuestion): Sql => {
  const partner = partner_id === undefined ? sql`true` : sql`partner_id = ${partner_id}`;
  const campaign = campaign_id === undefined ? sql`true` : sql`campaign_id = ${campaign_id}`;
  return sql`client_id = any (${clients}::int[]) and ${partner} and ${campaign}`;
};
/** One range with a gap, because an index cannot serve alternatives. */
const inPeriods = ({ current, previous }: Periods): Sql => sql`
  occurred_at >= ${new Date(previous.from)} and occurred_at < ${new Date(current.to)}
    and (occurred_at < ${new Date(previous.to)} or occurred_at >= ${new Date(current.from)})`;

/** How a kind is summed: from money_days, and from the table that money_days sums up. */
interface SumSource {
  readonly source: Source;
  readonly from: Sql;
  readonly isMeant: Sql;
  readonly isMeantOfRow: Sql;
  readonly refunded: Sql;
  readonly ofRow: Sql;
}
const nothing = sql`0`;
const onDay = sql`(occurred_at at time zone 'America/Mexico_City')::date`;
/** Lines that are credited now. */
const isCreditedLine = sql`t <> 'refund' and merged_into is null and credit_status = 'attributed'`;
const ofLine = sql`partner_id, campaign_id, t as event_type, segment, coalesce(currency, 'MXN') as currency`;
const ofMoney = sql`partner_id, campaign_id, event_type, segment, currency`;

const summed: Readonly<Record<Kind, SumSource>> = {
  sold: {
    ...{ source: "sales", from: sql`product_sales`, refunded: sql`part_minor` },
    ...{ isMeant: sql`status = 'attributed'`, isMeantOfRow: isCreditedLine },
    ofRow: sql`${ofLine}, 1, coalesce(value_minor, 0), coalesce(refunded_minor, 0)`,
  },
  credited: {
    ...{ source: "conversions", from: sql`conversions`, refunded: nothing },
    ...{ isMeant: sql`status = 'credited'`, isMeantOfRow: sql`status = 'credited'` },
    ofRow: sql`${ofMoney}, 1, 0, 0`,
  },
  earned: {
    ...{ source: "ledger", from: sql`ledger_entries`, refunded: nothing },
    ...{ isMeant: sql`status <> 'none'`, isMeantOfRow: sql`kind <> 'none'` },
    ofRow: sql`${ofMoney}, 1, amount_minor, 0`,
  },
};

const together = (parts: readonly Sql[]): Sql => parts.reduce((all, one) => sql`${all} union all ${one}`);

/**
 * Sums whole days from money_days, and reads the rows of a partial last day of the previous period.
 */
const sumsOf = (asked: FiguresQuestion, kind: Kind): Sql => {
  const { source, from, isMeant, isMeantOfRow, refunded, ofRow } = summed[kind];
  const { current, previous } = asked.periods;
  const rest = restOfLastDay(previous);
  const ofDays = sql`
    select ${kind} as kind, day, ${ofMoney}, n, amount_minor as amount, ${refunded} as refunded,
      null::bigint as item
    from money_days
    where ${ofWholeDays(source, { from: previous.from, to: current.to })} and ${isMeant} and ${inScope(asked)}
      and (day < ${dayOf(previous.to)}::date or day >= ${dayOf(current.from)}::date)`;
  if (rest === undefined) return ofDays;
  return sql`${ofDays} union all select ${kind}, ${onDay}, ${ofRow}, null::bigint from ${from}
    where ${isMeantOfRow} and ${inScope(asked)} and ${rest}`;
};

/**
 * Refunds of lines that were settled before lines stored their refunds: these are read from the
 * conversion.
 */
const refundsOfBefore = (asked: FiguresQuestion): Sql => sql`
  select 'sold', ${onDay}, ${ofLine}, 0, 0, given_back, null::bigint
  from (
    select s.*, max(c.refunded_minor) over (partition by s.client_id, s.event_id) as given_back,
      row_number() over (partition by s.client_id, s.event_id) as nth
    from (select client_id, event_id, partner_id as credited, occurred_at as credited_at, refunded_minor
      from conversions where refunded_minor > 0 and ${inScope({ ...asked, campaign_id: undefined })}
        and ${inPeriods(asked.periods)}) c
    join product_sales s on s.client_id = c.client_id and s.event_id = c.event_id and s.partner_id = c.credited
      and s.occurred_at = c.credited_at and s.refunded_minor is null) as sold
  where nth = 1 and ${isCreditedLine} and ${inScope(asked)}`;

/**
 * Identifies the order of a line. A placeholder order id stands for its own event. Hashed, because
 * comparing texts is slow.
 */
const orderHash = sql`hashtextextended(case
  when order_id is null or lower(order_id) = any (${placeholderTexts}::text[]) or order_id ~ ${zerosForm}
    then event_id::text
  else client_id || '/' || order_id end, 0)`;

/**
 * Subtracts the lines of orders with several lines from the count of lines, so that each order
 * counts once.
 */
const sharedOrders = (asked: FiguresQuestion): Sql => {
  const lines = sql`from product_sales where ${isCreditedLine} and ${inScope(asked)} and ${inPeriods(asked.periods)}`;
  return sql`
  with shared as materialized (
    select item from (select ${orderHash} as item ${lines}) orders group by item having count(*) > 1)
  select 'sold', ${onDay}, ${ofLine}, -1, 0, 0, item from (select *, ${orderHash} as item ${lines}) sold
  where item in (select item from shared)`;
};

const plain = (text: string): Sql => ({ text, values: [] });

/** Returns figures with an event or an amount; groups without either are absent. */
export const soldFigures = async (tx: PoolClient, asked: FiguresQuestion): Promise<readonly SoldFigure[]> => {
  if (asked.kinds.length === 0) return [];
  const parts = [
    ...asked.kinds.map((kind) => sumsOf(asked, kind)),
    ...(asked.kinds.includes("sold") ? [refundsOfBefore(asked), sql`(${sharedOrders(asked)})`] : []),
  ];
  const sets = ["", ...asked.by].flatMap((name) => [`(${name})`, `(${name === "" ? "" : `${name}, `}currency)`]);
  const level = (shown: (name: SplitBy) => string) =>
    asked.by.length === 0
      ? "null"
      : `case ${asked.by.map((name) => `when grouping(${name}) = 0 then ${shown(name)}`).join(" ")} end`;
  const by = plain(level((name) => `'${name}'`));
  const value = plain(level((name) => `${name}::text`));
  const { rows } = await tx.query(sql`
    with said as (${together(parts)}), placed as (
      select *, case when day >= ${dayOf(asked.periods.current.from)}::date then 'current' else 'previous' end as period
      from said)
    select kind, period, ${by} as by, ${value} as value, currency, sum(amount)::text as amount,
      (sum(n) + count(distinct item))::int as n, sum(refunded)::text as refunded
    from placed group by kind, period, grouping sets (${plain(sets.join(", "))})
    having sum(n) + count(distinct item) <> 0 or sum(amount) <> 0 or sum(refunded) <> 0`);
  return rows.map((row) => ({
    ...row,
    by: row.by ?? "total",
    amount: BigInt(row.amount),
    refunded: BigInt(row.refunded),
  }));
};

/** Commissions of the sales of a span, by their current state. */
export interface CommissionState {
  readonly status: string;
  readonly currency: string;
  readonly n: number;
  readonly amount: bigint;
}

export const commissionStates = async (tx: PoolClient, asked: FiguresQuestion): Promise<readonly CommissionState[]> => {
  const { rows } = await tx.query(sql`
    select status, currency, sum(n)::int as n, sum(amount_minor)::text as amount from money_days
    where ${ofWholeDays("commissions", asked.periods.current)} and ${inScope(asked)}
    group by 1, 2 having sum(n) <> 0`);
  return rows.map((row) => ({ ...row, amount: BigInt(row.amount) }));
};

const APPROVED = ["approved", "in_payment", "paid"];
const REFUSED = ["rejected", "reversed"];

/** Returns the share of approved ones among the commissions that were decided. */
export const approvalRate = (states: readonly CommissionState[]): number | null => {
  const among = (statuses: readonly string[]): number =>
    states.reduce((sum, { status, n }) => (statuses.includes(status) ? sum + n : sum), 0);
  return ratio(among(APPROVED), among(APPROVED) + among(REFUSED));
};

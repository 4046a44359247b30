// Sums of money by the day of the sale, which figures add up instead of reading every sale,
// conversion or entry. Database triggers keep them with the rows (migration 245).
import type { Pool } from "pg";
import { dayOf, startOfDay } from "../../../domain/calendar.ts";
import { toDecimal } from "../../../domain/money.ts";
import { tryLockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { type Sql, sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

interface Span {
  readonly from: UnixMs;
  /** Exclusive. */
  readonly to: UnixMs;
}

/** The kind of rows that are summed: each is a `source` in money_days. */
export type Source = "sales" | "conversions" | "ledger" | "commissions";

/** The columns that identify a sum, in the order of the table. */
const keys = sql`client_id, source, day, partner_id, campaign_id, event_type, segment, currency, status, reason,
  period`;

/** Selects the sums of the whole days of a span; a partial last day is in none of them. */
export const ofWholeDays = (source: Source, { from, to }: Span): Sql => sql`
  source = ${source} and day >= ${dayOf(from)}::date and day < ${dayOf(to)}::date`;

/**
 * Selects the rows of a partial last day by `occurred_at`; undefined when the span ends with a day.
 */
export const restOfLastDay = ({ to }: Span): Sql | undefined => {
  const from = startOfDay(dayOf(to));
  return from === to ? undefined : sql`occurred_at >= ${new Date(from)} and occurred_at < ${new Date(to)}`;
};

const HOUR_MS = 3_600_000;
/** The whole days from a moment on, today included. */
export const wholeDaysSince = (from: UnixMs, now: UnixMs): Span => {
  const following = (at: UnixMs): UnixMs => startOfDay(dayOf(startOfDay(dayOf(at)) + 36 * HOUR_MS));
  return { from: from === startOfDay(dayOf(from)) ? from : following(from), to: following(now) };
};

/** Days of a client and source in one statement; more of them would hold its locks longer. */
const DAYS_AT_ONCE = 200;

/**
 * Merges the rows that statements have added since the last run, so that a day stays a few rows.
 * Returns how many days it merged, at most `DAYS_AT_ONCE`, or "busy" while another process does it.
 */
export const addUpMoneyDays = (pool: Pool): Promise<number | "busy"> =>
  transaction(
    pool,
    null,
    async (tx) => {
      if (!(await tryLockUntilCommit(tx, "tributary.money_days"))) return "busy";
      const { rows } = await tx.query<{ days: number }>(sql`
        with fresh as (
          select distinct client_id, source, day from money_days where not is_sum limit ${DAYS_AT_ONCE}
        ), taken as (
          delete from money_days d using fresh f
          where d.client_id = f.client_id and d.source = f.source and d.day = f.day
          returning d.*
        ), added as (
          insert into money_days (${keys}, n, amount_minor, part_minor, is_sum)
          select ${keys}, sum(n), sum(amount_minor), sum(part_minor), true from taken group by ${keys}
          having sum(n) <> 0 or sum(amount_minor) <> 0 or sum(part_minor) <> 0
        )
        select count(*)::int as days from fresh`);
      return rows[0]!.days;
    },
    { role: "tributary_keeper" },
  );

/** The balance of one ledger account over all clients; `amount` in units of the currency. */
export interface LedgerBalance {
  readonly account: "expense" | "held" | "payable";
  readonly currency: string;
  readonly amount: number;
}

/**
 * Returns the balances of every currency that was ever booked; `expense` is the sum of the other
 * two.
 */
export const ledgerBalances = (pool: Pool): Promise<readonly LedgerBalance[]> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rows } = await tx.query<{ currency: string; expense: string; held: string }>(sql`
        select currency, sum(amount_minor)::text as expense, sum(part_minor)::text as held from money_days
        where source = 'ledger' group by currency order by currency`);
      return rows.flatMap(({ currency, ...sums }) => {
        const [expense, held] = [BigInt(sums.expense), BigInt(sums.held)];
        const amountOf = (minor: bigint): number => Number(toDecimal(minor, currency));
        return [
          { account: "expense", currency, amount: amountOf(expense) },
          { account: "held", currency, amount: amountOf(held) },
          { account: "payable", currency, amount: amountOf(expense - held) },
        ] as const;
      });
    },
    { role: "tributary_keeper", isReadOnly: true },
  );

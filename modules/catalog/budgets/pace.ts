// How far the money of a month is used, and where it leads when it goes on like this.
import { lockedFrom, monthsAfter, startOfDay } from "../../../domain/calendar.ts";
import { divideHalfEven } from "../../../domain/money.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { ratio } from "../../figures/reads/ratios.ts";

export interface MonthOfYear {
  readonly year: number;
  readonly month: number;
}
export interface Pace {
  /** Spent / amount; null of an amount of zero. */
  readonly share: number | null;
  /**
   * Spent / (amount * elapsed part of the month): 1 is on plan. Null before the month begins, and
   * of an amount of zero.
   */
  readonly pace: number | null;
  /** What will have been spent at the end of the month; null before its first tenth is over. */
  readonly forecast_minor: bigint | null;
}

/** Its first day (YYYY-MM-DD). */
export const firstDayOf = ({ year, month }: MonthOfYear): string => `${year}-${String(month).padStart(2, "0")}-01`;

/** The moments at which a month of America/Mexico_City begins and ends. */
export const spanOfMonth = (month: MonthOfYear): { readonly from: UnixMs; readonly to: UnixMs } => {
  const first = firstDayOf(month);
  return { from: startOfDay(first), to: startOfDay(monthsAfter(first, 1)) };
};

/** Of a month of America/Mexico_City: after its end it is provisional until it is locked. */
export const monthStateOf = (month: MonthOfYear, now: UnixMs): "future" | "open" | "provisional" | "locked" => {
  const { from, to } = spanOfMonth(month);
  if (now < from) return "future";
  if (now < to) return "open";
  return now < lockedFrom(firstDayOf(month)) ? "provisional" : "locked";
};

/** Of what was spent by `now` in a month, in minor units. */
export const paceOf = (month: MonthOfYear, spent: bigint, amount: bigint, now: UnixMs): Pace => {
  const { from, to } = spanOfMonth(month);
  const length = BigInt(to - from);
  const elapsed = BigInt(Math.max(0, Math.min(now, to) - from));
  return {
    share: ratio(spent, amount),
    pace: ratio(spent * length, amount * elapsed),
    forecast_minor: elapsed * 10n < length ? null : divideHalfEven(spent * length, elapsed),
  };
};

// The pace of spending in a month, and a forecast for its end.
import { dayOf, lockedFrom, monthsAfter, startOfDay } from "../../../domain/calendar.ts";
import { divideHalfEven } from "../../../domain/money.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { Days } from "../../base/days.ts";
import { ratio } from "../../figures/reads/ratios.ts";

export interface MonthOfYear {
  readonly year: number;
  readonly month: number;
}
export interface Pace {
  /** Spent / amount; null if the amount is zero. */
  readonly share: number | null;
  /**
   * Spent / (amount * elapsed part of the month): 1 is on plan. Null before the month begins, and
   * if the amount is zero.
   */
  readonly pace: number | null;
  /** The expected spend at the end of the month; null during its first tenth. */
  readonly forecast_minor: bigint | null;
}

/** The first day of a month (YYYY-MM-DD). */
export const firstDayOf = ({ year, month }: MonthOfYear): string => `${year}-${String(month).padStart(2, "0")}-01`;

/** The month as `2026-11`. */
export const monthText = (month: MonthOfYear): string => firstDayOf(month).slice(0, 7);

/** The times at which a month of America/Mexico_City begins and ends. */
export const spanOfMonth = (month: MonthOfYear): { readonly from: UnixMs; readonly to: UnixMs } => {
  const first = firstDayOf(month);
  return { from: startOfDay(first), to: startOfDay(monthsAfter(first, 1)) };
};

/** The first and the last day of a month. */
export const daysOfMonth = (month: MonthOfYear): Required<Days> => {
  const { from, to } = spanOfMonth(month);
  return { from: dayOf(from), to: dayOf(to - 1) };
};

/**
 * The state of a month of America/Mexico_City. After its end it is provisional until it is locked.
 */
export const monthStateOf = (month: MonthOfYear, now: UnixMs): "future" | "open" | "provisional" | "locked" => {
  const { from, to } = spanOfMonth(month);
  if (now < from) return "future";
  if (now < to) return "open";
  return now < lockedFrom(firstDayOf(month)) ? "provisional" : "locked";
};

/** The pace of a month's spend until `now`, in minor units. */
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

// Tells which months may still be changed: not locked yet, and not too far ahead.
import { dayOf, lockedFrom, monthsAfter } from "../../../domain/calendar.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { conflict, invalid, type RefusalError } from "../../base/refusal.ts";
import { firstDayOf, type MonthOfYear } from "./pace.ts";

/** How far ahead budgets and plans may be made. */
const MOST_MONTHS_AHEAD = 24;

export const monthClosed = (path: string, message = "the month of this day is locked"): RefusalError =>
  conflict("month_closed", message, { path });

/** Throws RefusalError `month_closed` if the month of this day is locked. */
export const refuseLocked = (day: string, path: string, now: UnixMs): void => {
  if (lockedFrom(day) <= now) throw monthClosed(path);
};

/** Throws RefusalError: invalid `invalid_value` for a month more than 24 months ahead. */
export const refuseFarAhead = (month: MonthOfYear, path: string, now: UnixMs): void => {
  const latest = monthsAfter(`${dayOf(now).slice(0, 7)}-01`, MOST_MONTHS_AHEAD);
  if (firstDayOf(month) > latest) throw invalid(path, "invalid_value", `at most ${MOST_MONTHS_AHEAD} months ahead`);
};

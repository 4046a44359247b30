// The range of days that a request asks for, and the stamp that says how fresh an answer is.
import { dayOf, formerMonthLockedFrom, lockedFrom, startOfDay } from "../../../domain/calendar.ts";
import { Problem } from "../../../infra/http/problem.ts";
import type { UnixMs } from "../../../stream/flow.ts";

const DAYS = 30;
const MOST_DAYS = 366;
const DAY_MS = 86_400_000;

export interface Span {
  readonly from: UnixMs;
  /** The first moment that is left out. */
  readonly to: UnixMs;
}

/** `from` and `to` are days of America/Mexico_City, both included; by default the last 30. */
export const spanOf = (
  asked: { readonly from?: string | undefined; readonly to?: string | undefined },
  now: UnixMs,
): Span => {
  const last = asked.to ?? dayOf(now);
  const first = asked.from ?? daysAfter(last, 1 - DAYS);
  if (first > last) throw refused("bad_range", "/from", "begin on the last day or before it");
  if (daysAfter(first, MOST_DAYS - 1) < last) throw refused("range_too_long", "/from", `at most ${MOST_DAYS} days`);
  return { from: startOfDay(first), to: startOfDay(daysAfter(last, 1)) };
};

const refused = (code: string, pointer: string, detail: string): Problem =>
  new Problem("validation_failed", detail, { code, errors: [{ pointer, code, detail }] });

/** Days of the calendar, whatever their clocks do. */
const daysAfter = (day: string, days: number): string =>
  new Date(Date.parse(`${day}T12:00:00Z`) + days * DAY_MS).toISOString().slice(0, 10);

/** Shown as stale from then on. */
const STALE_MS = 15 * 60_000;
export interface Stamp {
  readonly as_of: UnixMs;
  readonly freshness: "fresh" | "stale";
  readonly timezone: "America/Mexico_City";
  readonly provisional_until: UnixMs | null;
}

/**
 * How fresh figures up to the day `to` are: `asOf` is up to when the stores are complete, `newest`
 * the newest event of the scope, null when there never was one.
 */
export const stampOf = (now: UnixMs, asOf: UnixMs, newest: UnixMs | null, to: string): Stamp => {
  const locked = lockedFrom(to);
  const isFresh = newest !== null && now - newest <= STALE_MS && now - asOf <= STALE_MS;
  return {
    as_of: asOf,
    freshness: isFresh ? "fresh" : "stale",
    timezone: "America/Mexico_City",
    provisional_until: locked > now ? locked : null,
  };
};

/** When the month before the one in which `now` lies is locked; null when it is. */
export const formerMonthLocks = (now: UnixMs): UnixMs | null => {
  const locks = formerMonthLockedFrom(now);
  return now < locks ? locks : null;
};

/** Of the month before the one in which `now` lies. */
export const formerMonthState = (now: UnixMs): "provisional" | "locked" =>
  formerMonthLocks(now) === null ? "locked" : "provisional";

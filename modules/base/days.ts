// The days that a caller names, as a span of moments.
import { dayOf, startOfDay } from "../../domain/calendar.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { invalid } from "./refusal.ts";

export interface Span {
  readonly from: UnixMs;
  /** Exclusive. */
  readonly to: UnixMs;
}

/** The first and the last day, both included: days of America/Mexico_City, as YYYY-MM-DD. */
export interface Days {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** RFC 3339; null where there is no such moment. */
export const isoOrNull = (at: UnixMs | null): string | null => (at === null ? null : new Date(at).toISOString());

const USUAL_DAYS = 30;
const MOST_DAYS = 366;
const DAY_MS = 86_400_000;

/**
 * The last 30 days unless others are named. Throws RefusalError: invalid `bad_range` and
 * `range_too_long`.
 */
export const spanOf = ({ from, to }: Days, now: UnixMs): Span => {
  const last = to ?? dayOf(now);
  const first = from ?? daysAfter(last, 1 - USUAL_DAYS);
  if (first > last) throw badRange("bad_range", "begin on the last day or before it");
  if (daysAfter(first, MOST_DAYS - 1) < last) throw badRange("range_too_long", `at most ${MOST_DAYS} days`);
  return { from: startOfDay(first), to: startOfDay(daysAfter(last, 1)) };
};

const badRange = (code: string, message: string) => invalid("/from", code, message, { isOfAnswer: true });

/** Adds calendar days, independent of changes of the clock. */
const daysAfter = (day: string, days: number): string =>
  new Date(Date.parse(`${day}T12:00:00Z`) + days * DAY_MS).toISOString().slice(0, 10);

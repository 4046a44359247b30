// The two spans that figures compare: the requested days, and as many days before them.
import { dayOf, startOfDay } from "../../../domain/calendar.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { Span } from "../../base/days.ts";

export type { Span };
export interface Periods {
  readonly current: Span;
  readonly previous: Span;
}

const HALF_DAY_MS = 43_200_000;
const HOUR_MS = 3_600_000;

/** Adds calendar days to a day, regardless of clock changes. */
const dayAt = (day: string, days: number): string =>
  new Date(Date.parse(`${day}T12:00:00Z`) + days * 2 * HALF_DAY_MS).toISOString().slice(0, 10);

/** Every day of a span up to today. */
export const daysOf = ({ from, to }: Span, now: UnixMs): readonly string[] => {
  const last = dayOf(Math.min(to - 1, now));
  const days: string[] = [];
  for (let day = dayOf(from); day <= last; day = dayAt(day, 1)) days.push(day);
  return days;
};

/**
 * Returns the period of as many days just before `current`. While `current` is not over, the
 * previous period is cut at the same day and hour up to which the current one is complete, so that
 * equal spans are compared.
 */
export const periodsOf = (current: Span, asOf: UnixMs, now: UnixMs): Periods => {
  const first = dayOf(current.from);
  const last = dayOf(current.to - 1);
  const days = Math.round((Date.parse(last) - Date.parse(first)) / (2 * HALF_DAY_MS)) + 1;
  const from = startOfDay(dayAt(first, -days));
  if (current.to <= now) return { current, previous: { from, to: current.from } };
  const known = Math.max(current.from, Math.min(asOf, now));
  const day = dayOf(known);
  const hours = Math.floor((known - startOfDay(day)) / HOUR_MS);
  const cut = startOfDay(dayAt(day, -days)) + hours * HOUR_MS;
  return { current, previous: { from, to: Math.min(cut, current.from) } };
};

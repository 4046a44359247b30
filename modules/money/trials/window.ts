// The days that a trial or a backfill of a rule covers.
import { dayOf, startOfDay } from "../../../domain/calendar.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { invalid } from "../../base/refusal.ts";

export interface RuleWindow {
  readonly from: UnixMs;
  /** Exclusive. */
  readonly to: UnixMs;
  readonly first_day: string;
  readonly last_day: string;
}

const DEFAULT_DAYS = 30;
const MOST_DAYS = 90;
const DAY_MS = 86_400_000;

/** Adds calendar days, regardless of clock changes. */
const daysAfter = (day: string, days: number): string =>
  new Date(Date.parse(`${day}T12:00:00Z`) + days * DAY_MS).toISOString().slice(0, 10);
/** Returns the day of a time in America/Mexico_City. */
const dayIn = (text: string): string => (text.length === 10 ? text : dayOf(Date.parse(text)));

const badWindow = (code: string, message: string) => invalid("/from", code, message, { isOfAnswer: true });

/** A window of events with the selected types; undefined for all types. */
export type EventWindow = RuleWindow & { readonly event_types?: readonly string[] | undefined };

/**
 * First and last day, or times on them; by default 30 days ago and today. Throws RefusalError:
 * invalid `bad_range` and `range_too_long`.
 */
export const ruleWindow = (
  { from, to }: { readonly from?: string | undefined; readonly to?: string | undefined },
  now: UnixMs,
): RuleWindow => {
  const last_day = to === undefined ? dayOf(now) : dayIn(to);
  const first_day = from === undefined ? daysAfter(dayOf(now), -DEFAULT_DAYS) : dayIn(from);
  if (first_day > last_day) throw badWindow("bad_range", "begin on the last day or before it");
  if (daysAfter(first_day, MOST_DAYS - 1) < last_day) throw badWindow("range_too_long", `at most ${MOST_DAYS} days`);
  return { from: startOfDay(first_day), to: startOfDay(daysAfter(last_day, 1)), first_day, last_day };
};

// What `gt`, `lt`, `between` compare: numbers, and dates, where a day without a time is that day in
// Mexico City.
import { dayOf, startOfDay } from "../calendar.ts";
import { memo } from "../memo.ts";
import type { FieldKind } from "./fields.ts";

/**
 * The stretch [from, to) that a value covers: a day has a length, an instant lasts a millisecond, a
 * number none (`to` is `from`).
 */
export interface ValueSpan {
  readonly unit: "number" | "time";
  readonly from: number;
  readonly to: number;
}

/**
 * What stands for a value in an ordered comparison; undefined when it has no order: there is no
 * coercion, so the text "10" is no number.
 */
export const boundOf = (value: unknown, kind: FieldKind): ValueSpan | undefined => {
  if (typeof value === "number") return Number.isFinite(value) ? { unit: "number", from: value, to: value } : undefined;
  return typeof value === "string" && kind === "any" ? (timeOf(value) ?? undefined) : undefined;
};

/**
 * A day, or an instant with its zone; the groups are year, month, day, hour, minute, second,
 * fraction, zone. Also what a store matches with, where a group that takes no part is empty.
 */
export const dateForm =
  "^([0-9]{4})-([0-9]{2})-([0-9]{2})" +
  "(?:T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.]([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2}))?$";
const form = new RegExp(dateForm);
const dayMs = 86_400_000;
const minuteMs = 60_000;
/**
 * The years before are taken for others by Date.UTC, and the day after the last one has no form:
 * neither is a date of anybody's event.
 */
const firstYear = 100;
const lastDay = "9999-12-31";

/** Days and instants as senders write them; the same few come again and again. */
const datesRemembered = 10_000;
const timeOf: (text: string) => ValueSpan | null = memo(datesRemembered, (text) => {
  const match = form.exec(text);
  if (match === null) return null;
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map((digits) => Number(digits ?? 0)) as [
    number,
    ...number[],
  ];
  const midnight = Date.UTC(year, month! - 1, day);
  const date = text.slice(0, 10);
  // What no calendar or clock has is no date, so that nothing depends on how somebody would mend
  // it.
  if (year < firstYear || date === lastDay || new Date(midnight).toISOString().slice(0, 10) !== date) return null;
  if (match[8] === undefined) return wholeDay(midnight, date);
  const zone = zoneMs(match[8]);
  if (hour! > 23 || minute! > 59 || second! > 59 || zone === null) return null;
  const at =
    midnight +
    ((hour! * 60 + minute!) * 60 + second!) * 1_000 +
    Number((match[7] ?? "").padEnd(3, "0").slice(0, 3)) -
    zone;
  return { unit: "time", from: at, to: at + 1 };
});

/** What a zone is ahead of UTC; null when no clock shows it. */
const zoneMs = (zone: string): number | null => {
  if (zone === "Z") return 0;
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(4))];
  if (hours > 23 || minutes > 59) return null;
  return (zone.startsWith("-") ? -1 : 1) * (hours * 60 + minutes) * minuteMs;
};

/**
 * Days of the zone are 23 to 25 hours long while it has summer time, so the end is the start of the
 * next one.
 */
const wholeDay = (midnight: number, date: string): ValueSpan => {
  const next = new Date(midnight + dayMs).toISOString().slice(0, 10);
  return { unit: "time", from: startOfDay(date), to: startOfDay(next) };
};

/**
 * The number, counted from 1970-01-01, of the first day of Mexico City that begins at `at` or
 * later: what days are compared with where no zone is known.
 */
export const firstDayFrom = (at: number): number => {
  const day = dayOf(at);
  const number = Date.parse(`${day}T00:00:00Z`) / dayMs;
  return startOfDay(day) === at ? number : number + 1;
};

// Days and months in America/Mexico_City, to the millisecond. Dashboards, commissions and payments
// use them.
import type { UnixMs } from "../stream/flow.ts";

export interface Month {
  readonly year: number;
  /** 1 (January) to 12. */
  readonly month: number;
}

const TIME_ZONE = "America/Mexico_City";
const DAY_MS = 86_400_000;
/**
 * A first guess that `startOf` corrects: the zone's offset since summer time was abolished on
 * 2022-10-30.
 */
const USUAL_OFFSET_MS = -6 * 3_600_000;
const DATE = /^(\d{4})-(\d{2})-(\d{2})$/;

let wallClock: Intl.DateTimeFormat | undefined;
/**
 * Cached starts of days. Intl costs microseconds, so each day is looked up once. The cache is
 * bounded, so unusual days cannot fill the memory.
 */
const dayStarts = new Map<number, UnixMs>();
const MAX_DAYS_KEPT = 4_096;

/** The zone's offset from UTC at `at`, from the IANA data inside Node. */
const offsetAt = (at: UnixMs): number => {
  wallClock ??= new Intl.DateTimeFormat("en-US", {
    timeZone: TIME_ZONE,
    calendar: "gregory",
    numberingSystem: "latn",
    hourCycle: "h23",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
  });
  const shown: Record<string, number> = {};
  for (const { type, value } of wallClock.formatToParts(at)) shown[type] = Number(value);
  const wall = Date.UTC(shown.year!, shown.month! - 1, shown.day, shown.hour, shown.minute, shown.second);
  return wall - Math.floor(at / 1_000) * 1_000;
};

/**
 * The first instant of a day, given as days since 1970-01-01. If clocks jump over midnight, the day
 * starts with the jump.
 */
const startOf = (day: number): UnixMs => {
  const known = dayStarts.get(day);
  if (known !== undefined) return known;
  const midnight = day * DAY_MS;
  const before = midnight - offsetAt(midnight - DAY_MS);
  const after = midnight - offsetAt(midnight + DAY_MS);
  const start = offsetAt(before) === midnight - before || offsetAt(after) !== midnight - after ? before : after;
  if (dayStarts.size >= MAX_DAYS_KEPT) dayStarts.clear();
  dayStarts.set(day, start);
  return start;
};

const dayNumberOf = (at: UnixMs): number => {
  const guess = Math.floor((at + USUAL_OFFSET_MS) / DAY_MS);
  if (at < startOf(guess)) return guess - 1;
  return at < startOf(guess + 1) ? guess : guess + 1;
};

/**
 * The first day of a month, counted in months since January 1970 in UTC. Only a guess near the
 * start of a month.
 */
const firstDayOf = (monthNumber: number): number => Date.UTC(1970, monthNumber, 1) / DAY_MS;
let lastMonth = { from: 0, to: 0, month: { year: 0, month: 0 } };

/** The month in Mexico City at `at`. */
export const monthOf = (at: UnixMs): Month => {
  if (at >= lastMonth.from && at < lastMonth.to) return lastMonth.month;
  const guessed = new Date(at + USUAL_OFFSET_MS);
  let monthNumber = (guessed.getUTCFullYear() - 1970) * 12 + guessed.getUTCMonth();
  if (at < startOf(firstDayOf(monthNumber))) monthNumber -= 1;
  else if (at >= startOf(firstDayOf(monthNumber + 1))) monthNumber += 1;
  const year = 1970 + Math.floor(monthNumber / 12);
  const month = { year, month: monthNumber - (year - 1970) * 12 + 1 };
  lastMonth = { from: startOf(firstDayOf(monthNumber)), to: startOf(firstDayOf(monthNumber + 1)), month };
  return month;
};

let lastDay = { number: 0, text: "1970-01-01" };

/** The day in Mexico City at `at`, as YYYY-MM-DD. The sales of a batch are of a few days. */
export const dayOf = (at: UnixMs): string => {
  const number = dayNumberOf(at);
  if (number !== lastDay.number) lastDay = { number, text: new Date(number * DAY_MS).toISOString().slice(0, 10) };
  return lastDay.text;
};

/**
 * The first millisecond of a day in Mexico City, given as YYYY-MM-DD. Throws RangeError if the text
 * is not a calendar day.
 */
export const startOfDay = (day: string): UnixMs => {
  const [, year, month, date] = DATE.exec(day) ?? [];
  const midnight = year === undefined ? Number.NaN : Date.UTC(Number(year), Number(month) - 1, Number(date));
  if (Number.isNaN(midnight) || new Date(midnight).toISOString().slice(0, 10) !== day)
    throw new RangeError(`not a day of the calendar (YYYY-MM-DD): ${day}`);
  return startOf(midnight / DAY_MS);
};

/**
 * The same day `months` later, or the last day of that month if it is shorter. Both are YYYY-MM-DD.
 * Throws RangeError like `startOfDay`.
 */
export const monthsAfter = (day: string, months: number): string => {
  startOfDay(day);
  const [, year, month, date] = DATE.exec(day)!;
  const monthNumber = (Number(year) - 1970) * 12 + Number(month) - 1 + months;
  const days = firstDayOf(monthNumber + 1) - firstDayOf(monthNumber);
  return new Date((firstDayOf(monthNumber) + Math.min(Number(date), days) - 1) * DAY_MS).toISOString().slice(0, 10);
};

/**
 * The same day and time `months` calendar months earlier, or the last day of that month if it is
 * shorter. In UTC, because retention counts months in UTC.
 */
export const monthsBefore = (at: UnixMs, months: number): UnixMs => {
  const dayNumber = Math.floor(at / DAY_MS);
  if (dayNumber !== lastShift.day || months !== lastShift.months)
    lastShift = { day: dayNumber, months, ms: at - dayMonthsBefore(at, months) };
  return at - lastShift.ms;
};
/** Cached, because every moment of a UTC day is shifted by the same time. */
let lastShift = { day: Number.NaN, months: 0, ms: 0 };

const dayMonthsBefore = (at: UnixMs, months: number): UnixMs => {
  const date = new Date(at);
  const day = date.getUTCDate();
  date.setUTCMonth(date.getUTCMonth() - months);
  // If the earlier month is too short, the date overflows into the next month. Day 0 then means the
  // last day of the shorter month.
  return date.getUTCDate() === day ? date.getTime() : date.setUTCDate(0);
};

/** The day of the following month on which a month is locked. */
const LOCKED_ON = 8;

/** The moment from which the month of `day` only changes by adjustments. */
export const lockedFrom = (day: string): UnixMs => {
  const next = monthsAfter(`${day.slice(0, 7)}-01`, 1);
  return startOfDay(`${next.slice(0, 7)}-0${LOCKED_ON}`);
};

/** The moment from which the month before that of `at` is locked. */
export const formerMonthLockedFrom = (at: UnixMs): UnixMs => {
  const { year, month } = monthOf(at);
  return startOfDay(`${year}-${String(month).padStart(2, "0")}-0${LOCKED_ON}`);
};

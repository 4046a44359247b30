// How conditions compare values: numbers and dates by their span, where a day without a time means
// that day in Mexico City, and amounts in minor units with a number that a person wrote, unrounded.
import { dayOf, startOfDay } from "../calendar.ts";
import { memo } from "../memo.ts";
import type { FieldKind } from "./fields.ts";

/**
 * The span [from, to) that a value covers. A day has its length, an instant lasts one millisecond,
 * and a number has none (`to` equals `from`).
 */
export interface ValueSpan {
  readonly unit: "number" | "time";
  readonly from: number;
  readonly to: number;
}

/**
 * The span of a value in an ordered comparison. Undefined if the value has no order. Nothing is
 * coerced, so the text "10" is not a number.
 */
export const boundOf = (value: unknown, kind: FieldKind): ValueSpan | undefined => {
  if (typeof value === "number") return Number.isFinite(value) ? { unit: "number", from: value, to: value } : undefined;
  return typeof value === "string" && kind === "any" ? (timeOf(value) ?? undefined) : undefined;
};

/**
 * Matches a day, or an instant with its zone. The groups are year, month, day, hour, minute,
 * second, fraction and zone. A store uses this pattern too; there, unmatched groups are empty.
 */
export const dateForm =
  "^([0-9]{4})-([0-9]{2})-([0-9]{2})" +
  "(?:T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.]([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2}))?$";
const form = new RegExp(dateForm);
const dayMs = 86_400_000;
const minuteMs = 60_000;
/**
 * Date.UTC misreads earlier years, and the day after the last one cannot be written. No event has
 * either date.
 */
const firstYear = 100;
const lastDay = "9999-12-31";

/** Senders repeat a few days and instants, so parsed texts are cached. */
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
  // A date or time that does not exist is refused, so that no result depends on how a parser would
  // repair it.
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

/** The zone's offset from UTC in milliseconds. Null if the zone is impossible. */
const zoneMs = (zone: string): number | null => {
  if (zone === "Z") return 0;
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(4))];
  if (hours > 23 || minutes > 59) return null;
  return (zone.startsWith("-") ? -1 : 1) * (hours * 60 + minutes) * minuteMs;
};

/** With summer time a day has 23 to 25 hours, so it ends where the next day starts. */
const wholeDay = (midnight: number, date: string): ValueSpan => {
  const next = new Date(midnight + dayMs).toISOString().slice(0, 10);
  return { unit: "time", from: startOfDay(date), to: startOfDay(next) };
};

/**
 * The number, counted from 1970-01-01, of the first day in Mexico City that begins at `at` or
 * later. Used to compare days where the zone is not available.
 */
export const firstDayFrom = (at: number): number => {
  const day = dayOf(at);
  const number = Date.parse(`${day}T00:00:00Z`) / dayMs;
  return startOfDay(day) === at ? number : number + 1;
};

/** The value units / 10^digits. */
export interface Decimal {
  readonly units: bigint;
  readonly digits: number;
}

/** Matches every form that String(number) produces. */
const shortest = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/;

/**
 * The shortest decimal that a finite number prints as: 0.1 is one tenth. Throws RangeError on NaN
 * and infinities.
 */
export const decimalOf = (value: number): Decimal => {
  const match = shortest.exec(String(value));
  if (match === null) throw new RangeError(`not a finite number: ${value}`);
  const [, sign, whole, fraction = "", exponent = "0"] = match;
  const units = BigInt(`${sign}${whole}${fraction}`);
  const digits = fraction.length - Number(exponent);
  return digits >= 0 ? { units, digits } : { units: units * 10n ** BigInt(-digits), digits: 0 };
};

/** No currency has more decimals (ISO 4217). */
const mostDigits = 4;

/**
 * Returns a function that compares an amount of `minor` units in a currency with `digits` decimals
 * to the number: negative if below, 0 if equal, positive if above. The number is scaled once for
 * each possible number of decimals.
 */
export const comparedTo = (value: number): ((minor: bigint, digits: number) => number) => {
  const number = decimalOf(value);
  const scales = Array.from({ length: mostDigits + 1 }, (_, digits) => ({
    minorTimes: 10n ** BigInt(Math.max(0, number.digits - digits)),
    limit: number.units * 10n ** BigInt(Math.max(0, digits - number.digits)),
  }));
  return (minor, digits) => {
    const { minorTimes, limit } = scales[digits]!;
    const amount = minor * minorTimes;
    return amount < limit ? -1 : amount > limit ? 1 : 0;
  };
};

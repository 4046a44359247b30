// processors/attribute/dates.ts - what `gt`, `lt`, `between` compare: numbers, and dates, where a day without a time is that day in Mexico City.
import { startOfDay } from "../calendar.ts";
import { memo } from "../memo.ts";
import type { FieldKind } from "./fields.ts";

/** The stretch [from, to) that a value covers: a day has a length, an instant lasts a millisecond, a number none (`to` is `from`). */
export interface Bound {
  readonly unit: "number" | "time";
  readonly from: number;
  readonly to: number;
}

/** What stands for a value in an ordered comparison; undefined when it has no order: there is no coercion, so the text "10" is no number. */
export const boundOf = (value: unknown, kind: FieldKind): Bound | undefined => {
  if (typeof value === "number") return Number.isFinite(value) ? { unit: "number", from: value, to: value } : undefined;
  return typeof value === "string" && kind === "any" ? (timeOf(value) ?? undefined) : undefined;
};

const day = /^\d{4}-\d{2}-\d{2}$/;
const instant = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/;
const dayMs = 86_400_000;

/** Days and instants as senders write them; the same few come again and again. */
const datesRemembered = 10_000;
const timeOf: (text: string) => Bound | null = memo(datesRemembered, (text) => {
  if (day.test(text)) return wholeDay(text);
  const at = instant.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? null : { unit: "time", from: at, to: at + 1 };
});

/** Days of the zone are 23 to 25 hours long while it has summer time, so the end is the start of the next one. */
const wholeDay = (text: string): Bound | null => {
  try {
    const next = new Date(Date.parse(`${text}T00:00:00Z`) + dayMs).toISOString().slice(0, 10);
    return { unit: "time", from: startOfDay(text), to: startOfDay(next) };
  } catch (error) {
    // The text of a sender names a day that no calendar has: then it is no date.
    if (error instanceof RangeError) return null;
    throw error;
  }
};

// processors/attribute/dates.ts - what `gt`, `lt`, `between` compare: numbers, and dates, where a day without a time is that day in Mexico City.
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

const day = /^(\d{4})-(\d{2})-(\d{2})$/;
const instant = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/;
const dayMs = 86_400_000;

/** Days and instants as senders write them; the same few come again and again. */
const datesRemembered = 10_000;
const timeOf: (text: string) => Bound | null = memo(datesRemembered, (text) => {
  if (day.test(text)) {
    const utc = Date.parse(`${text}T00:00:00Z`);
    // 2026-02-30 is refused by the parser or moved to March, depending on the engine: only what reads back the same is a day.
    if (Number.isNaN(utc) || new Date(utc).toISOString().slice(0, 10) !== text) return null;
    return { unit: "time", from: midnightOf(utc), to: midnightOf(utc + dayMs) };
  }
  const at = instant.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? null : { unit: "time", from: at, to: at + 1 };
});

const mexicoCity = new Intl.DateTimeFormat("en-US", {
  timeZone: "America/Mexico_City",
  hourCycle: "h23",
  year: "numeric",
  month: "numeric",
  day: "numeric",
  hour: "numeric",
  minute: "numeric",
  second: "numeric",
});
/** How far the clocks of Mexico City are ahead of UTC at an instant; negative. Summer time ended there in October 2022, so the offset is no constant. */
const offsetAt = (at: number): number => {
  const parts = Object.fromEntries(mexicoCity.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
  return Date.UTC(parts.year!, parts.month! - 1, parts.day!, parts.hour!, parts.minute!, parts.second!) - at;
};
/** The second look decides on the days when the clocks are changed: they change at 2 o'clock, so every midnight exists. */
const midnightOf = (utcMidnight: number): number => utcMidnight - offsetAt(utcMidnight - offsetAt(utcMidnight));

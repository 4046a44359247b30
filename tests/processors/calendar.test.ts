// Days and months of Mexico City, against the dates that people know and against Intl.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { dayOf, monthOf, monthsAfter, monthsBefore, startOfDay } from "../../domain/calendar.ts";

const wall = new Intl.DateTimeFormat("en-CA", {
  timeZone: "America/Mexico_City",
  year: "numeric",
  month: "2-digit",
  day: "2-digit",
});
const instants = fc.integer({ min: Date.UTC(1990, 0, 1), max: Date.UTC(2060, 0, 1) });

describe("months of Mexico City", () => {
  test("a month begins at 06:00Z on the 1st", () => {
    expect(monthOf(Date.UTC(2026, 6, 1, 6) - 1)).toEqual({ year: 2026, month: 6 });
    expect(monthOf(Date.UTC(2026, 6, 1, 6))).toEqual({ year: 2026, month: 7 });
  });

  test("in summers until 2022-10-30 it began at 05:00Z", () => {
    expect(monthOf(Date.UTC(2022, 6, 1, 5) - 1)).toEqual({ year: 2022, month: 6 });
    expect(monthOf(Date.UTC(2022, 6, 1, 5))).toEqual({ year: 2022, month: 7 });
    expect(monthOf(Date.UTC(2022, 10, 1, 6) - 1)).toEqual({ year: 2022, month: 10 });
    expect(monthOf(Date.UTC(2022, 10, 1, 6))).toEqual({ year: 2022, month: 11 });
  });

  test("a year begins with its January", () => {
    expect(monthOf(Date.UTC(2026, 0, 1, 6) - 1)).toEqual({ year: 2025, month: 12 });
    expect(monthOf(Date.UTC(2026, 0, 1, 6))).toEqual({ year: 2026, month: 1 });
  });

  test("at any instant the month is the one that Intl shows", () => {
    fc.assert(
      fc.property(instants, (at) => {
        const { year, month } = monthOf(at);
        expect(`${year}-${String(month).padStart(2, "0")}`).toBe(wall.format(at).slice(0, 7));
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("days of Mexico City", () => {
  test("a day begins at 06:00Z, in summers until 2022 at 05:00Z", () => {
    expect(startOfDay("2026-06-15")).toBe(Date.UTC(2026, 5, 15, 6));
    expect(startOfDay("2022-06-15")).toBe(Date.UTC(2022, 5, 15, 5));
    expect(startOfDay("2022-01-15")).toBe(Date.UTC(2022, 0, 15, 6));
  });

  test("the last day of summer time had 25 hours", () => {
    expect(startOfDay("2022-10-31") - startOfDay("2022-10-30")).toBe(25 * 3_600_000);
  });

  test("at any instant the day is the one that Intl shows", () => {
    fc.assert(
      fc.property(instants, (at) => {
        expect(dayOf(at)).toBe(wall.format(at));
      }),
      { numRuns: 1_000 },
    );
  });

  test("a day is its own from its first millisecond, and the one before it a millisecond earlier", () => {
    fc.assert(
      fc.property(instants, (at) => {
        const start = startOfDay(dayOf(at));
        expect(start).toBeLessThanOrEqual(at);
        expect(dayOf(start)).toBe(dayOf(at));
        expect(dayOf(start - 1)).not.toBe(dayOf(at));
        expect(wall.format(start - 1)).not.toBe(wall.format(start));
      }),
      { numRuns: 1_000 },
    );
  });

  test.each(["2026-02-30", "2026-13-01", "26-01-01", "2026-1-1", "yesterday", ""])("%j is not a day", (text) => {
    expect(() => startOfDay(text)).toThrow(RangeError);
  });
});

test.each([
  ["2026-06-15", 1, "2026-07-15"],
  ["2026-01-31", 1, "2026-02-28"],
  ["2024-01-31", 1, "2024-02-29"],
  ["2025-12-31", 2, "2026-02-28"],
  ["2026-06-30", 12, "2027-06-30"],
])("%s and %d months is %s", (day, months, later) => {
  expect(monthsAfter(day, months)).toBe(later);
});
test("months after a day that is none are refused", () => {
  expect(() => monthsAfter("2026-02-30", 1)).toThrow(RangeError);
});

test.each([
  ["2027-03-31T10:00:00.000Z", 1, "2027-02-28T10:00:00.000Z"],
  ["2028-02-29T00:00:00.000Z", 24, "2026-02-28T00:00:00.000Z"],
  ["2026-12-31T23:59:59.999Z", 6, "2026-06-30T23:59:59.999Z"],
  ["2027-01-15T12:00:00.000Z", 13, "2025-12-15T12:00:00.000Z"],
])("%s less %i months is %s, never a day of the month behind", (at, months, before) => {
  expect(new Date(monthsBefore(Date.parse(at), months)).toISOString()).toBe(before);
});
test("months before a time are whole months, and never begin earlier as days pass", () => {
  fc.assert(
    fc.property(instants, fc.integer({ min: 1, max: 24 }), (at, months) => {
      const [before, date] = [new Date(monthsBefore(at, months)), new Date(at)];
      const count = (one: Date): number => one.getUTCFullYear() * 12 + one.getUTCMonth();
      expect(count(date) - count(before)).toBe(months);
      expect(monthsBefore(at + 86_400_000, months)).toBeGreaterThanOrEqual(before.getTime());
    }),
  );
});

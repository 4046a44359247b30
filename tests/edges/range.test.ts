// Ranges of days, and the freshness of an answer.
import { expect, test } from "vitest";
import { spanOf } from "../../modules/base/days.ts";
import { formerMonthState, stampOf } from "../../modules/figures/reads/stamp.ts";

const now = Date.UTC(2026, 10, 22, 3);
/** The code is that of the place, and of the answer as a whole. */
const refusal = (code: string) =>
  expect.objectContaining({ refusals: [expect.objectContaining({ path: "/from", code, isOfAnswer: true })] });
const iso = ({ from, to }: { from: number; to: number }) => [new Date(from).toISOString(), new Date(to).toISOString()];

test("without a range it is the last 30 days of Mexico City, today among them", () =>
  expect(iso(spanOf({}, now))).toEqual(["2026-10-23T06:00:00.000Z", "2026-11-22T06:00:00.000Z"]));
test("both days of a range belong to it, and 366 of them are the most", () => {
  expect(iso(spanOf({ from: "2024-01-01", to: "2024-12-31" }, now))).toEqual([
    "2024-01-01T06:00:00.000Z",
    "2025-01-01T06:00:00.000Z",
  ]);
  expect(() => spanOf({ from: "2023-12-31", to: "2024-12-31" }, now)).toThrow(refusal("range_too_long"));
  expect(() => spanOf({ from: "2024-01-02", to: "2024-01-01" }, now)).toThrow(refusal("bad_range"));
});
test("a month is provisional up to the 7th of the next one, in Mexico City", () => {
  expect(formerMonthState(Date.UTC(2026, 10, 8, 5, 59))).toBe("provisional");
  expect(formerMonthState(Date.UTC(2026, 10, 8, 6))).toBe("locked");
});
test("a stamp is stale without events for 15 minutes, and behind by as much", () => {
  const minutes = (n: number) => now - n * 60_000;
  const stamp = (asOf: number, newest: number | null) => stampOf(now, asOf, newest, "2026-11-21").freshness;
  expect([stamp(now, minutes(15)), stamp(now, minutes(16)), stamp(minutes(16), now), stamp(now, null)]).toEqual([
    "fresh",
    "stale",
    "stale",
    "stale",
  ]);
});
test("it says until when its last month may move, and nothing of a locked one", () => {
  const until = (to: string) => stampOf(now, now, now, to).provisional_until;
  expect(new Date(until("2026-11-21")!).toISOString()).toBe("2026-12-08T06:00:00.000Z");
  expect(until("2026-10-31")).toBeNull();
});

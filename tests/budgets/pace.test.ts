// Share, pace and forecast of a month, computed by hand.
import { expect, test } from "vitest";
import { paceOf, spanOfMonth } from "../../modules/catalog/budgets/pace.ts";

const june = { year: 2026, month: 6 };
const { from, to } = spanOfMonth(june);
const after = (part: number): number => from + (to - from) * part;

test("a month is that of America/Mexico_City", () => {
  expect([new Date(from).toISOString(), new Date(to).toISOString()]).toEqual([
    ...["2026-06-01T06:00:00.000Z", "2026-07-01T06:00:00.000Z"],
  ]);
});
test("half of the money in half of the month is on plan", () => {
  expect(paceOf(june, 50_000n, 100_000n, after(0.5))).toEqual({ share: 0.5, pace: 1, forecast_minor: 100_000n });
});
test("there is no pace before the month, and no forecast before its first tenth is over", () => {
  expect(paceOf(june, 5n, 100n, from - 1)).toEqual({ share: 0.05, pace: null, forecast_minor: null });
  expect(paceOf(june, 5n, 100n, from)).toMatchObject({ pace: null });
  expect(paceOf(june, 5n, 100n, after(0.1) - 1)).toMatchObject({ forecast_minor: null });
  expect(paceOf(june, 5n, 100n, after(0.1))).toEqual({ share: 0.05, pace: 0.5, forecast_minor: 50n });
});
test("of a month that is over the forecast is what was spent", () => {
  expect(paceOf(june, 90n, 80n, to + 1_000)).toEqual({ share: 1.125, pace: 1.125, forecast_minor: 90n });
});
test("more given back than earned is a share below zero, and ratios have 4 decimals, half to even", () => {
  expect(paceOf(june, -30n, 100n, to)).toMatchObject({ share: -0.3 });
  expect(paceOf(june, 1n, 3n, to)).toMatchObject({ share: 0.3333 });
  expect(paceOf(june, 5n, 100_000n, to)).toMatchObject({ share: 0 });
  expect(paceOf(june, 15n, 100_000n, to)).toMatchObject({ share: 0.0002 });
});
test("an amount of zero has no share and no pace, and still a forecast", () => {
  expect(paceOf(june, 5n, 0n, after(0.5))).toEqual({ share: null, pace: null, forecast_minor: 10n });
});

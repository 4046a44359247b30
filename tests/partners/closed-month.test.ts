// The days that a change of a contract affects, and whether they are in a locked month.
import { expect, test } from "vitest";
import { closedMonthOf, daysChanged } from "../../modules/catalog/contracts/closed-month.ts";

const now = Date.UTC(2026, 10, 20, 12);
const contract = { effective_from: "2026-01-01", effective_to: null as string | null, rate: "5", version: 3 };

test("a contract that is saved again as it was touches no day, though it ended in a closed month", () => {
  const ended = { ...contract, effective_to: "2026-03-01" };
  expect(daysChanged(ended, { ...ended, version: 4 })).toBeUndefined();
  expect(closedMonthOf(ended, { ...ended, version: 4 }, now)).toBeNull();
});

test("another end touches the days between the two, other terms all days, a new one its own", () => {
  const [march, december] = ["2026-03-01", "2026-12-01"];
  const ends = (effective_to: string | null) => ({ ...contract, effective_to });
  expect(daysChanged(ends(march), ends(december))).toEqual({ from: march, to: december });
  expect(daysChanged(ends(null), ends(december))).toEqual({ from: december, to: null });
  expect(daysChanged(contract, { ...contract, rate: "6" })).toEqual({ from: "2026-01-01", to: null });
  expect(daysChanged(undefined, ends(march))).toEqual({ from: "2026-01-01", to: march });
});

test("a closed month is named by the field that reaches into it", () => {
  const field = (before: typeof contract | undefined, after: typeof contract) =>
    closedMonthOf(before, after, now)?.field;
  expect(field(contract, { ...contract, rate: "6" })).toBe("effective_from");
  expect(field(contract, { ...contract, effective_to: "2026-03-01" })).toBe("effective_to");
  expect(field(contract, { ...contract, effective_to: "2026-12-01" })).toBeUndefined();
});

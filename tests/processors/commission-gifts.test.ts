// Lines of 0 in orders of customers whose first sale comes late: what gives way, and what the
// months take.
import { describe, expect, test } from "vitest";
import type { Contract } from "../../domain/reference/reference.ts";
import type { LedgerEntry } from "../../schemas/generated.ts";
import { dayMs, noon } from "../support/builders.ts";
import { computedAgain, type Happening, history, leftBy, reported, written } from "../support/contract-builders.ts";
import { committed, terms } from "../support/money-builders.ts";

const monthly = written({ type: "recurring", amount: "25.00", months: 1 });
const sold = (minor: bigint, day: number, order_id: string | null = "o1"): Happening => ({
  sale: minor,
  over: { order_id, occurred_at: noon + day * dayMs },
});
const gift = (day: number): Happening => sold(0n, day);
const lamp = (day: number): Happening => sold(499_00n, day);

const entriesOf = (happenings: readonly Happening[], contract: Contract = monthly): readonly LedgerEntry[] => {
  const entries = committed(history(happenings), () => terms({ contract }));
  expect(new Set(entries.map(({ entry_id }) => entry_id)).size).toBe(entries.length);
  for (const entry of entries) if (entry.kind !== "none") expect(computedAgain(entry)).toBe(entry.amount_minor);
  return entries;
};

describe("a late first sale, and a line of 0", () => {
  // A first sale on day -25 ends the months on day 6.
  test("that gives way to it, while another order loses a line: each entry has an id of its own", () => {
    const entries = entriesOf([gift(-10), sold(10_00n, 6, "o2"), sold(10_00n, 0, "o2"), lamp(-25)]);
    expect(reported(entries.slice(3))).toEqual([
      ["cnv_3", 25_00n, null],
      ["cnv_1", -25_00n, "first_sale_moved"],
      ["cnv_2", 25_00n, "order_line_left"],
      ["cnv_0", -25_00n, "order_line_left"],
    ]);
  });

  test("that has just inherited from one behind the months", () => {
    const entries = entriesOf([gift(6), gift(0), lamp(-25)]);
    expect(reported(entries.slice(2))).toEqual([
      ["cnv_2", 25_00n, null],
      ["cnv_0", -25_00n, "first_sale_moved"],
      ["cnv_1", 25_00n, "order_line_left"],
      ["cnv_1", -25_00n, "order_line_left"],
    ]);
    const free = { ...monthly, amount_minor: 0n };
    expect(leftBy(entriesOf([gift(6), gift(0), lamp(-25)], free))).toEqual({ cnv_0: 0n, cnv_1: 0n, cnv_2: 0n });
  });

  test("that lies behind the months itself", () => {
    const entries = entriesOf([gift(6), lamp(-25)]);
    expect(reported(entries.slice(1))).toEqual([
      ["cnv_1", 25_00n, null],
      ["cnv_0", -25_00n, "first_sale_moved"],
    ]);
  });

  test("that gave way before has nothing to lose", () => {
    const entries = entriesOf([gift(8), lamp(4), sold(10_00n, -25, null)]);
    expect(reported(entries.slice(3))).toEqual([["cnv_2", 25_00n, null]]);
    expect(leftBy(entries)).toEqual({ cnv_0: 0n, cnv_1: 25_00n, cnv_2: 25_00n });
  });

  test("which inherits nothing from a line of value that lies behind the months", () => {
    for (const sales of [
      [gift(4), lamp(6)],
      [lamp(6), gift(4)],
    ]) {
      const entries = entriesOf([...sales, sold(10_00n, -25, null), gift(3)]);
      expect(leftBy(entries)).toEqual({ cnv_0: 0n, cnv_1: 0n, cnv_2: 25_00n, cnv_3: 0n });
      expect(reported(entries).at(-1)).toEqual(["cnv_3", 0n, "paid_with_order"]);
    }
  });
});

// Contracts whose amounts pay once an order: which line carries them, and where they go when it is
// gone.
import { describe, expect, test } from "vitest";
import type { Contract } from "../../domain/reference/reference.ts";
import { commission } from "../../processors/commission/commission.ts";
import { earned } from "../../processors/commission/memory.ts";
import type { LedgerEntry } from "../../schemas/generated.ts";
import { noon } from "../support/builders.ts";
import {
  computedAgain,
  type Happening,
  history,
  leftBy,
  reported,
  sumOf,
  takenBack,
  written,
} from "../support/contract-builders.ts";
import { committed, terms } from "../support/money-builders.ts";
import { bytesOf, metBy } from "../support/remembered.ts";

type Over = Extract<Happening, { sale: bigint }>["over"];
const line = (minor: bigint, over: Over = {}): Happening => ({ sale: minor, over: { order_id: "o1", ...over } });
const all = 10n ** 18n;
const gone = (refundOf: number): Happening => ({ refundOf, minor: all });

const entriesOf = (contract: Contract, happenings: readonly Happening[]): readonly LedgerEntry[] =>
  committed(history(happenings), () => terms({ contract }));

const flat = written({ type: "flat", amount: "25.00" });
const three = [line(10_00n), line(20_00n), line(30_00n)];

describe("a flat amount an order", () => {
  test("is carried by the first credited line", () => {
    expect(reported(entriesOf(flat, three))).toEqual([
      ["cnv_0", 25_00n, null],
      ["cnv_1", 0n, "paid_with_order"],
      ["cnv_2", 0n, "paid_with_order"],
    ]);
  });

  test("pays each line where the contract says so, and each order of its own", () => {
    const each = written({ type: "flat", amount: "25.00", per: "line" });
    expect(sumOf(entriesOf(each, three))).toBe(75_00n);
    expect(sumOf(entriesOf(flat, [line(1n), line(1n, { order_id: "o2" })]))).toBe(50_00n);
  });

  test("pays each sale that names no order, only a placeholder, or cannot have lines", () => {
    for (const over of [
      { order_id: null },
      { order_id: "N/A" },
      { event_type: "lead_submit" },
      { event_type: "install" },
    ])
      expect(sumOf(entriesOf(flat, [line(1_00n, over), line(1_00n, over)]))).toBe(50_00n);
  });

  test("moves to the next line once its line is gone, and to the next again", () => {
    const entries = entriesOf(flat, [...three, gone(0), gone(1)]);
    expect(reported(entries.slice(3))).toEqual([
      ["cnv_0", -25_00n, "item_returned"],
      ["cnv_1", 25_00n, "order_line_left"],
      ["cnv_1", -25_00n, "item_returned"],
      ["cnv_2", 25_00n, "order_line_left"],
    ]);
    expect(entries[4]).toMatchObject({ kind: "adjustment", conversion_version: 1, reverses_entry_id: null });
    expect(entries[5]).toMatchObject({ kind: "reversal", reverses_entry_id: entries[4]!.entry_id });
    expect(new Set(entries.map(({ entry_id }) => entry_id)).size).toBe(entries.length);
  });

  test("stays where it is when another line goes", () => {
    expect(leftBy(entriesOf(flat, [...three, gone(1)]))).toEqual({ cnv_0: 25_00n, cnv_1: 0n, cnv_2: 0n });
  });

  test("is taken back in part with its line, and what is left of the next line gets the same part", () => {
    const happenings = [...three, { refundOf: 0, minor: 4_00n }, { refundOf: 1, minor: 5_00n }, gone(0)];
    expect(leftBy(entriesOf(flat, happenings))).toEqual({ cnv_0: 0n, cnv_1: 18_75n, cnv_2: 0n });
  });

  test("is held where the next line is under review, and payable once that one is released", () => {
    const entries = entriesOf(flat, [
      line(10_00n),
      line(10_00n, { review: "fraud_review" }),
      gone(0),
      { releaseOf: 1 },
    ]);
    expect(entries.slice(-2).map(({ lines }) => lines)).toEqual([
      [
        { account: "expense:client", amount_minor: 25_00n },
        { account: "held:partner", amount_minor: -25_00n },
      ],
      [
        { account: "held:partner", amount_minor: 25_00n },
        { account: "payable:partner", amount_minor: -25_00n },
      ],
    ]);
  });

  test("is booked in the month of the line that carries it then, or in the first open one", () => {
    const july = Date.UTC(2026, 6, 15);
    const happenings = history([line(10_00n), line(10_00n, { occurred_at: july }), gone(0)]);
    const open = { year: 2026, month: 9 };
    const openMonthAt = (at: number) => (at === july ? open : null);
    expect(committed(happenings, () => terms({ contract: flat })).at(-1)).toMatchObject({
      month: 7,
      occurred_at: july,
    });
    expect(committed(happenings, () => terms({ contract: flat, openMonthAt })).at(-1)).toMatchObject(open);
  });

  test("uses the cap of the day of its line, as far as it has room", () => {
    const capped = written({ type: "flat", amount: "25.00", cap: { period: "day", amount: "30.00" } });
    const next = noon + 86_400_000;
    const sales = [line(1_00n), line(1_00n, { occurred_at: next }), line(1_00n, { order_id: "o2", occurred_at: next })];
    const entries = entriesOf(capped, [...sales, gone(0), gone(1)]);
    expect(leftBy(entries.slice(0, -1))).toEqual({ cnv_0: 0n, cnv_1: 5_00n, cnv_2: 25_00n });
    expect(leftBy(entries)).toEqual({ cnv_0: 0n, cnv_1: 0n, cnv_2: 25_00n });
  });
});

test("lines of contracts that pay each line take no part in the order of a later contract", () => {
  const each = written({ type: "flat", amount: "25.00", per: "line" });
  const entries = committed(history(three), ({ data }) =>
    terms({ contract: data.conversion_id === "cnv_0" ? each : { ...flat, version: 2 } }),
  );
  expect(entries.map(({ amount_minor }) => amount_minor)).toEqual([25_00n, 25_00n, 0n]);
});

describe("a line of value 0", () => {
  const gift = line(0n);
  const lamp = line(499_00n);

  test("carries the amount of an order that has nothing else", () => {
    expect(leftBy(entriesOf(flat, [gift, gift]))).toEqual({ cnv_0: 25_00n, cnv_1: 0n });
    expect(leftBy(entriesOf(flat, [gift, gift, gone(0)]))).toEqual({ cnv_0: 0n, cnv_1: 25_00n });
  });

  test("inherits nothing from a line of value, and earns nothing after it", () => {
    expect(leftBy(entriesOf(flat, [lamp, gift, gone(0)]))).toEqual({ cnv_0: 0n, cnv_1: 0n });
    expect(reported(entriesOf(flat, [lamp, gone(0), gift])).at(-1)).toEqual(["cnv_1", 0n, "paid_with_order"]);
    expect(leftBy(entriesOf(flat, [lamp, gift, line(1_00n), gone(0)]))).toMatchObject({ cnv_1: 0n, cnv_2: 25_00n });
  });

  test("gives the amount to the first line of value, whose refunds then take it", () => {
    const entries = entriesOf(flat, [gift, lamp]);
    expect(reported(entries.slice(1))).toEqual([
      ["cnv_1", 25_00n, null],
      ["cnv_0", -25_00n, "order_line_left"],
    ]);
    expect(new Set(entries.map(({ entry_id }) => entry_id)).size).toBe(3);
    for (const entry of entries) expect(computedAgain(entry)).toBe(entry.amount_minor);
    const half = { refundOf: 1, minor: 249_50n };
    expect(leftBy(entriesOf(flat, [gift, lamp, half, gone(0)]))).toEqual({ cnv_0: 0n, cnv_1: 12_50n });
    expect(leftBy(entriesOf(flat, [gift, lamp, gone(1), gone(0)]))).toEqual({ cnv_0: 0n, cnv_1: 0n });
  });

  test("gives its room in a cap back before the line of value takes it", () => {
    const capped = written({ type: "flat", amount: "25.00", cap: { period: "lifetime", amount: "30.00" } });
    expect(leftBy(entriesOf(capped, [gift, lamp]))).toEqual({ cnv_0: 0n, cnv_1: 25_00n });
  });

  test("is no sale for tiers once its order has a line of value", () => {
    const counted = written({ type: "tiered", tiers: [{ from: 0, amount: 10 }] });
    const sumBy = (...happenings: readonly Happening[]): bigint => sumOf(entriesOf(counted, happenings));
    const july = line(0n, { occurred_at: Date.UTC(2026, 6, 15) });
    expect(sumBy(gift, gift)).toBe(10_00n);
    for (const sales of [
      [lamp, gift],
      [gift, lamp],
      [july, lamp],
    ]) {
      expect(sumBy(...sales)).toBe(10_00n);
      const at = sales.indexOf(lamp);
      expect(sumBy(...sales, gone(at))).toBe(0n);
      expect(sumBy(...sales, { refundOf: at, minor: 249_50n })).toBe(5_00n);
      expect(sumBy(...sales, gone(1 - at))).toBe(10_00n);
    }
    expect(sumBy(lamp, gone(0), gift)).toBe(0n);
  });
});

const limited = written({ type: "hybrid", amount: "1.00", rate: 10, min: "4.00", max: "9.00" });

test("a minimum and a maximum are those of the order, whichever lines of it are gone", () => {
  const sales = [line(10_00n), line(20_00n), line(50_00n), line(10_00n)];
  expect(leftBy(entriesOf(limited, sales))).toEqual({ cnv_0: 4_00n, cnv_1: 0n, cnv_2: 5_00n, cnv_3: 0n });
  expect(leftBy(entriesOf(limited, [...sales, gone(2)]))).toEqual({ cnv_0: 4_00n, cnv_1: 0n, cnv_2: 0n, cnv_3: 1_00n });
  expect(leftBy(entriesOf(limited, [...sales, gone(0)]))).toEqual({
    cnv_0: 0n,
    cnv_1: 4_00n,
    cnv_2: 4_00n,
    cnv_3: 1_00n,
  });
  expect(leftBy(entriesOf(limited, [...sales, gone(2), gone(0)]))).toEqual({
    ...{ cnv_0: 0n, cnv_1: 4_00n, cnv_2: 0n, cnv_3: 0n },
  });
});

test("every receipt can be computed again, and all that is taken back is nothing", () => {
  const sales = [line(10_00n), line(20_00n), line(50_00n), { refundOf: 1, minor: 5_00n }, gone(0)];
  for (const contract of [flat, limited]) {
    for (const entry of entriesOf(contract, sales))
      if (entry.kind !== "none") expect(computedAgain(entry)).toBe(entry.amount_minor);
    expect(sumOf(entriesOf(contract, takenBack(sales.slice(0, 3))))).toBe(0n);
  }
});

describe("tiers that count sales", () => {
  const counted = written({
    type: "tiered",
    tiers: [
      { from: 0, amount: 10 },
      { from: 1, amount: 15 },
    ],
  });
  const june = (amount: bigint, entries: readonly LedgerEntry[]) =>
    expect(sumOf(entries.filter(({ month }) => month === 6))).toBe(amount);

  test("count an order once, whichever of its lines is left", () => {
    const sales = [line(10_00n), line(20_00n), line(5_00n, { order_id: "o2" })];
    june(25_00n, entriesOf(counted, sales));
    june(25_00n, entriesOf(counted, [...sales, gone(0)]));
    june(10_00n, entriesOf(counted, [...sales, gone(0), gone(1)]));
  });

  test("count it in the month of the line that carries it", () => {
    const july = Date.UTC(2026, 6, 15);
    const entries = entriesOf(counted, [line(10_00n), line(20_00n, { occurred_at: july }), gone(0)]);
    june(0n, entries);
    expect(entries.at(-1)).toMatchObject({
      kind: "tier_adjustment",
      amount_minor: 10_00n,
      month: 7,
      occurred_at: july,
    });
    june(0n, entriesOf(counted, [line(10_00n), line(20_00n, { occurred_at: july }), gone(0), gone(1)]));
  });

  test("count what is left of the next line", () => {
    june(5_00n, entriesOf(counted, [line(10_00n), line(20_00n), { refundOf: 1, minor: 10_00n }, gone(0)]));
  });
});

test("what is remembered of an order is read as it was written", () => {
  const order = {
    ...{ is: "order", contract_segment: null, counts_as: "purchase", had_value: ["MXN"] },
    lines: [
      {
        ...{ conversion_id: "cnv_1", version: 2, at: noon, event_type: "ext_purchase", segment: "MX", campaign_id: 31 },
        ...{ currency: "MXN", value_minor: 10_00n, refunded_minor: 1n },
        pays: {
          rate_minor: 1n,
          flat_minor: 2n,
          min_minor: null,
          max_minor: 3n,
          cap: { period: "day", amount_minor: 4n },
        },
      },
      {
        ...{ conversion_id: "cnv_2", version: 1, at: noon, event_type: "purchase", segment: null, campaign_id: null },
        ...{ currency: "MXN", value_minor: 0n, refunded_minor: 0n, pays: null },
      },
    ],
  };
  expect(earned.decode(earned.encode(order))).toEqual(order);
});

describe("an order of 60 lines that is taken back line by line", () => {
  const lines = Array.from({ length: 60 }, (_, n) => line(10_00n + BigInt(n)));
  const records = history(takenBack(lines));
  /** How many lines and periods of others each record asks for. */
  const asked = (of: Contract): readonly number[] => {
    const known = new Map<string, Uint8Array>();
    return records.map((record) => {
      const { keys, state } = metBy(earned, record, known);
      const outcome = commission(record, state, terms({ contract: of }));
      if (outcome.kind !== "emit") throw new Error(`commission emits, this was a ${outcome.kind}`);
      for (const { key, value } of bytesOf(earned, keys, state, outcome.state)) known.set(key, value);
      return keys.length - earned.keysOf(record).length;
    });
  };
  test.each([
    ["a flat amount", { type: "flat", amount: "25.00" }],
    ["a maximum", { type: "percent", rate: "10", max: "20.00" }],
    ["a minimum", { type: "percent", rate: "10", min: "20.00" }],
    ["a sale of a month of tiers", { type: "tiered", tiers: [{ from: "0", amount: "1.00" }] }],
  ])("asks of the other lines for those alone that %s moves to", (_, of) => {
    const counts = asked(written(of));
    expect(Math.max(...counts)).toBeLessThanOrEqual(3);
    expect(counts.some((count) => count > 0)).toBe(true);
  });
});

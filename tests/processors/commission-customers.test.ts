// The months of a customer whose first sale comes late: what the later ones lose, and what is
// remembered of a customer.
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { toDecimal, toMinor } from "../../domain/money.ts";
import type { Contract } from "../../domain/reference/reference.ts";
import { commission } from "../../processors/commission/commission.ts";
import { earned, SALES_OF_MONTH, SALES_TOGETHER } from "../../processors/commission/memory.ts";
import type { Conversion, LedgerEntry } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { dayMs, noon } from "../support/builders.ts";
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
import { change, committed, terms } from "../support/money-builders.ts";
import { bytesOf, metBy } from "../support/remembered.ts";

const monthly = written({ type: "recurring", rate: 10, months: 1 });
const all = 10n ** 18n;
type Over = Extract<Happening, { sale: bigint }>["over"];
/** A sale of 100.00, that many days after June 15, 2026. */
const at = (day: number, over: Over = {}): Happening => ({
  sale: 100_00n,
  over: { occurred_at: noon + day * dayMs, ...over },
});

const entriesOf = (happenings: readonly Happening[], contract: Contract = monthly): readonly LedgerEntry[] =>
  committed(history(happenings), () => terms({ contract }));
const onAccount = (entries: readonly LedgerEntry[], name: string): bigint =>
  entries.flatMap(({ lines }) => lines).reduce((sum, one) => (one.account === name ? sum - one.amount_minor : sum), 0n);

const minorOf = (text: string): bigint => {
  const read = toMinor(text, "MXN");
  if (read.kind === "bad_amount") throw new Error(`${text} ${read.why}`);
  return read.minor;
};
const page = readFileSync(new URL("../../docs/design/money.md", import.meta.url), "utf8");
const [, table = ""] = page.split("### Months of a customer\n")[1]!.split(/((?:^\|.*\n)+)/m);
const examples = table
  .trim()
  .split("\n")
  .slice(2)
  .map((row) =>
    row
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );

describe("the table of docs/design/money.md", () => {
  test.each(examples)("%s", (said, left) => {
    const names: string[] = [];
    const happenings = said!.split("; ").map((one): Happening => {
      const [, what, day = "", amount = ""] = /^(sale|refund|release) (\S+) ?(\S+)?$/.exec(one)!;
      if (what === "refund") return { refundOf: names.indexOf(day), minor: amount === "all" ? all : minorOf(amount) };
      if (what === "release") return { releaseOf: names.indexOf(day) };
      names.push(day);
      const review = amount === "review" ? "fraud_review" : null;
      return { sale: 100_00n, over: { occurred_at: Date.parse(`2026-${day}T18:00:00Z`), review } };
    });
    const sums = leftBy(entriesOf(happenings));
    expect(names.map((day, n) => `${day} ${toDecimal(sums[`cnv_${n}`]!, "MXN")}`).join("; ")).toBe(left);
  });
});

describe("a first sale that comes late", () => {
  test("takes from the sales that lie behind the months now, each by an adjustment of its own", () => {
    const entries = entriesOf([at(0), at(20), at(-20)]);
    expect(reported(entries)).toEqual([
      ["cnv_0", 10_00n, null],
      ["cnv_1", 10_00n, null],
      ["cnv_2", 10_00n, null],
      ["cnv_1", -10_00n, "first_sale_moved"],
    ]);
    expect(entries[3]).toMatchObject({
      ...{ kind: "adjustment", change_id: entries[2]!.change_id, conversion_version: 1, commission_type: "recurring" },
      ...{ reverses_entry_id: entries[1]!.entry_id, occurred_at: noon + 20 * dayMs, payable_from: noon + 50 * dayMs },
      formula:
        "amount = reversed before - earned: an earlier first sale of the customer came late, and this sale lies " +
        "behind its 1 month",
    });
    expect(JSON.parse(entries[3]!.inputs)).toMatchObject({
      ...{
        first_sale: "cnv_2",
        first_sale_event: change().data.event_id,
        customer_since: "2026-05-26",
        paid_until: "2026-06-26",
        months: 1,
      },
    });
    expect(computedAgain(entries[3]!)).toBe(-10_00n);
  });

  test("leaves every sale as if all had come in their order, whatever order they came in", () => {
    const sale = fc.record({ day: fc.nat(150), refunded: fc.constantFrom(0n, 0n, 33_33n, all), rank: fc.nat() });
    fc.assert(
      fc.property(fc.array(sale, { minLength: 1, maxLength: 30 }), fc.constantFrom(1, 2), (sales, months) => {
        const contract = { ...monthly, months };
        const numbered = sales.map((one, n) => ({ ...one, id: `cnv_${n}` }));
        const paidIn = (inOrder: typeof numbered) => {
          const happenings = inOrder.flatMap(({ day, refunded }, n): Happening[] =>
            refunded === 0n ? [at(day)] : [at(day), { refundOf: n, minor: refunded }],
          );
          const entries = entriesOf(happenings, contract);
          for (const account of ["payable:partner", "held:partner"])
            expect(onAccount(entries, account) >= 0n).toBe(true);
          const left = leftBy(entries);
          return Object.fromEntries(inOrder.map(({ id }, n) => [id, left[`cnv_${n}`]]));
        };
        const known = paidIn(numbered.toSorted((a, b) => a.day - b.day));
        expect(paidIn(numbered)).toEqual(known);
        expect(paidIn(numbered.toSorted((a, b) => a.rank - b.rank))).toEqual(known);
        expect(paidIn(numbered.toSorted((a, b) => b.day - a.day))).toEqual(known);
      }),
      { numRuns: 80 },
    );
  });

  test("takes nothing of a sale for life, and judges each sale by the months of its own contract", () => {
    const byDay = (happenings: readonly Happening[], of: Readonly<Record<number, Contract>>) =>
      leftBy(committed(history(happenings), ({ data }) => terms({ contract: of[(data.occurred_at - noon) / dayMs]! })));
    const twice = { ...monthly, months: 2 };
    const life = { ...monthly, months: null };
    const sold = [at(20), at(21), at(22), at(-20)];
    expect(byDay(sold, { 20: monthly, 21: twice, 22: life, [-20]: monthly })).toEqual({
      ...{ cnv_0: 0n, cnv_1: 10_00n, cnv_2: 10_00n, cnv_3: 10_00n },
    });
  });

  test("is still the first one after it was wholly refunded", () => {
    const happenings = [at(20), at(-20), { refundOf: 1, minor: all }, at(15), at(10)];
    expect(leftBy(entriesOf(happenings))).toEqual({ cnv_0: 0n, cnv_1: 0n, cnv_2: 0n, cnv_3: 10_00n });
  });

  test("is no sale without a value, and no sale of somebody else or of a placeholder", () => {
    const free: Happening = { sale: 0n, over: { occurred_at: noon - 20 * dayMs } };
    expect(leftBy(entriesOf([at(20), free])).cnv_0).toBe(10_00n);
    expect(leftBy(entriesOf([at(20), at(-20, { customer: "leo" })])).cnv_0).toBe(10_00n);
    expect(leftBy(entriesOf([at(20, { customer: "" }), at(-20, { customer: "" })])).cnv_0).toBe(10_00n);
  });

  test("takes what refunds left of a sale, whose further refunds move nothing", () => {
    const entries = entriesOf([at(20), { refundOf: 0, minor: 30_00n }, at(-20), { refundOf: 0, minor: all }]);
    expect(reported(entries)).toEqual([
      ["cnv_0", 10_00n, null],
      ["cnv_0", -3_00n, "item_returned"],
      ["cnv_1", 10_00n, null],
      ["cnv_0", -7_00n, "first_sale_moved"],
      ["cnv_0", 0n, "months_over"],
    ]);
    expect(entries[3]!.conversion_version).toBe(2);
  });

  test("takes from what is held where the sale is under review, else from what is payable", () => {
    const reviewed = at(20, { review: "fraud_review" });
    const held = entriesOf([reviewed, at(-20)]);
    expect([onAccount(held, "held:partner"), onAccount(held, "payable:partner")]).toEqual([0n, 10_00n]);
    const after = entriesOf([reviewed, at(-20), { releaseOf: 0 }]);
    expect(after.at(-1)).toMatchObject({ kind: "none", reason: "months_over", lines: [] });
    const released = entriesOf([reviewed, { releaseOf: 0 }, at(-20)]);
    expect([onAccount(released, "held:partner"), onAccount(released, "payable:partner")]).toEqual([0n, 10_00n]);
    expect(released.at(-1)).toMatchObject({ held: false, conversion_version: 2 });
  });

  test("is booked in the first open month where the month of the sale that loses is closed", () => {
    const open = { year: 2026, month: 9 };
    const openMonthAt = (when: number) => (when === noon + 20 * dayMs ? open : null);
    const entries = committed(history([at(20), at(-20)]), () => terms({ contract: monthly, openMonthAt }));
    expect(entries.at(-1)).toMatchObject({ ...open, amount_minor: -10_00n, kind: "adjustment" });
    expect(entries.at(-1)!.formula).toMatch(/is booked in the first open one$/);
  });

  test("gives a cap for life its room back first, so that the first sale uses it as it would have", () => {
    const capped = written({ type: "recurring", rate: 10, months: 1, cap: { period: "lifetime", amount: 15 } });
    const inOrder = leftBy(entriesOf([at(-20), at(20), at(21)], capped));
    expect(inOrder).toEqual({ cnv_0: 10_00n, cnv_1: 0n, cnv_2: 0n });
    expect(leftBy(entriesOf([at(20), at(21), at(-20)], capped))).toEqual({ cnv_0: 0n, cnv_1: 0n, cnv_2: 10_00n });
    expect(sumOf(entriesOf([at(20), at(21), at(-20), at(-10)], capped))).toBe(15_00n);
  });

  test("leaves the amounts of an order to a line of it that lies within the months", () => {
    const amount = written({ type: "recurring", amount: "25.00", months: 1 });
    const line = (day: number): Happening => at(day, { order_id: "o1" });
    const entries = entriesOf([line(6), line(4), at(-25)], amount);
    expect(reported(entries)).toEqual([
      ["cnv_0", 25_00n, null],
      ["cnv_1", 0n, "paid_with_order"],
      ["cnv_2", 25_00n, null],
      ["cnv_0", -25_00n, "first_sale_moved"],
      ["cnv_1", 25_00n, "order_line_left"],
    ]);
    expect(leftBy(entriesOf([line(6), line(8), at(-25)], amount))).toEqual({ cnv_0: 0n, cnv_1: 0n, cnv_2: 25_00n });
    const gone = entriesOf(
      [line(6), line(4), at(-25), { refundOf: 0, minor: all }, { refundOf: 1, minor: all }],
      amount,
    );
    expect(leftBy(gone)).toEqual({ cnv_0: 0n, cnv_1: 0n, cnv_2: 25_00n });
    expect(new Set(gone.map(({ entry_id }) => entry_id)).size).toBe(gone.length);
  });

  test("and all is nothing after all was taken back", () => {
    expect(sumOf(entriesOf(takenBack([at(20), at(40), at(-20), at(-40)])))).toBe(0n);
  });
});

/** Folds changes as a worker does, and keeps the bytes of all values. */
const remembering = (changes: readonly Recorded<Conversion>[], kept = new Map<string, Uint8Array>()) => {
  const entries: LedgerEntry[] = [];
  for (const event of changes) {
    const { keys, state } = metBy(earned, event, kept);
    const outcome = commission(event, state, terms({ contract: monthly }));
    if (outcome.kind !== "emit") throw new Error("commission only emits");
    entries.push(...outcome.events.map(({ data }) => data));
    for (const { key, value } of bytesOf(earned, keys, state, outcome.state)) kept.set(key, value);
  }
  return { kept, entries };
};

describe("what is remembered of a customer", () => {
  const most = SALES_TOGETHER + SALES_OF_MONTH;
  // All of one calendar month, and within a month of the first one.
  const many = (n: number): readonly Happening[] => Array.from({ length: n }, (_, of) => at(of % 10));

  test("does not grow with the number of sales, and a sale too many says that it is kept", () => {
    const sizes = [most, 300].map((n) => {
      const { kept, entries } = remembering(history(many(n)));
      const ofCustomer = [...kept].filter(([key]) => key.includes("|customer"));
      return { entries, values: ofCustomer.length, bytes: Math.max(...ofCustomer.map(([, { length }]) => length)) };
    });
    expect(sizes[1]).toMatchObject({ values: 2, bytes: sizes[0]!.bytes });
    expect(sizes[0]!.bytes).toBeLessThan(4_096);
    const keeps = (one: LedgerEntry): boolean =>
      one.formula.endsWith("; kept even if an earlier first sale of the customer comes");
    expect(sizes[1]!.entries.findIndex(keeps)).toBe(most);
    expect(sizes[1]!.entries.slice(most).every(keeps)).toBe(true);
    expect(JSON.parse(sizes[1]!.entries[most]!.inputs)).toMatchObject({ customer_sales_of_month_most: SALES_OF_MONTH });
  });

  test("is every sale up to that bound: the late first sale takes from all of them, and from none beyond", () => {
    const sold = [...many(most + 5), at(-40)];
    const { entries, kept } = remembering(history(sold));
    expect(entries.filter(({ reason }) => reason === "first_sale_moved").length).toBe(most);
    expect(sumOf(entries)).toBe(60_00n);
    expect(JSON.parse(String(kept.get("7:21|customer:*:purchase:d1")))).toMatchObject({
      sales: [["cnv_77", noon - 40 * dayMs, 1]],
    });
  });

  test("is a sale less once nothing is left of it", () => {
    const { kept } = remembering(history([at(0), at(1), { refundOf: 0, minor: all }]));
    expect(JSON.parse(String(kept.get("7:21|customer:*:purchase:d1"))).sales).toEqual([["cnv_1", noon + dayMs, 1]]);
    const inMonth = [...many(most), { refundOf: most - 1, minor: all }, at(3)];
    expect(remembering(history(inMonth)).entries.at(-1)!.formula).not.toContain("kept even");
  });

  test("is read as it was written before, and what was decided before keeps its outcome", () => {
    const before = new Map<string, Uint8Array>([
      ["7:21|customer:*:purchase:d1", Buffer.from(`{"format":2,"is":"customer","since":${noon + 20 * dayMs}}`)],
    ]);
    expect(remembering(history([at(-20)]), before).entries.map(({ amount_minor }) => amount_minor)).toEqual([10_00n]);
    const value = earned.decode(Buffer.from(`{"format":2,"is":"customer","since":1}`));
    expect(String(earned.encode(value))).toBe(`{"format":2,"is":"customer","since":1}`);
  });

  test("adds nothing to a sale that cannot lose", () => {
    const bytes = (contract: Contract): unknown[] => {
      const event = history([at(0)])[0]!;
      const { keys, state } = metBy(earned, event, new Map());
      const outcome = commission(event, state, terms({ contract }));
      if (outcome.kind !== "emit") throw new Error("commission only emits");
      const [own] = bytesOf(earned, keys, state, outcome.state);
      expect(earned.encode(earned.decode(own!.value))).toEqual(own!.value);
      return JSON.parse(String(own!.value));
    };
    expect(bytes(written({ type: "percent", rate: 10 })).length).toBe(13);
    expect(bytes(monthly).slice(13)).toEqual([null, null, null, null, [1, noon, "purchase", "MX", 31, "MXN"]]);
  });
});

// What a month pays whose sales fall under several contracts, compared with an oracle that ignores
// the order of arrival.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { divideHalfEven } from "../../domain/money.ts";
import type { Contract } from "../../domain/reference/reference.ts";
import { commission } from "../../processors/commission/commission.ts";
import { earned } from "../../processors/commission/memory.ts";
import { smaller } from "../../processors/commission/worth.ts";
import type { Conversion, LedgerEntry } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { dayMs, noon } from "../support/builders.ts";
import {
  computedAgain,
  type Happening,
  history,
  sumOf,
  takenBack,
  volumeEarns,
  written,
} from "../support/contract-builders.ts";
import { change, committed, terms } from "../support/money-builders.ts";
import { bytesOf, metBy } from "../support/remembered.ts";

const tier = fc.record({ from: fc.integer({ min: 1, max: 900 }), rate: fc.integer({ min: 0, max: 40 }) });
/** Two steps; the second begins higher and pays more, which a retroactive table requires. */
const tables = fc
  .record({
    first: fc.integer({ min: 0, max: 20 }),
    next: tier,
    isByValue: fc.boolean(),
    tier_mode: fc.constantFrom("marginal", "retroactive"),
  })
  .map(({ first, next, isByValue, tier_mode }) => {
    const second = first + next.rate + 1;
    const tiers = isByValue
      ? [
          { from: 0, rate: first },
          { from: next.from, rate: second },
        ]
      : [
          { from: 0, amount: first },
          { from: 1 + (next.from % 5), amount: second },
        ];
    return { type: "tiered", tier_mode, tiers };
  });
/** Contracts one after the other, each from another day. */
const successions = fc
  .array(tables, { minLength: 1, maxLength: 3 })
  .map((all) =>
    all.map((one, n): Contract => ({ ...written(one), contract_id: n + 1, effective_from: noon - (9 - n) * dayMs })),
  );
const sales = fc.record({
  sale: fc.bigInt({ min: 1n, max: 500_00n }),
  by: fc.nat(2),
  review: fc.constantFrom(null, null, "fraud_review"),
});
const months = fc.array(sales, { minLength: 1, maxLength: 8 });
type Sold = { readonly sale: bigint; readonly by: number; readonly review: string | null };

const byOf = (sold: readonly Sold[], all: readonly Contract[]) => (event: Recorded<Conversion>) =>
  terms({ contract: all[sold[Number(event.data.conversion_id.slice(4))]!.by % all.length] });
const happeningsOf = (sold: readonly Sold[]): readonly Happening[] =>
  sold.map(({ sale, review }) => ({ sale, over: { review } }));

/**
 * The earnings of a month by contract: its part above earlier sales, or at the tier of all sales.
 */
const partsEarn = (sold: readonly Sold[], all: readonly Contract[]): readonly bigint[] => {
  const unitsOf = (of: readonly Sold[], { tiers }: Contract): bigint =>
    of.reduce((sum, { sale }) => sum + (tiers[0]!.rate_ppm === null ? 1_000_000n : sale), 0n);
  return all.map((one, n) => {
    const own = unitsOf(
      sold.filter(({ by }) => by % all.length === n),
      one,
    );
    const below = unitsOf(
      sold.filter(({ by }) => by % all.length < n),
      one,
    );
    if (one.tier_mode === "marginal") return volumeEarns(below + own, one) - volumeEarns(below, one);
    const month = unitsOf(sold, one);
    const unit = one.tiers[0]!.rate_ppm === null ? 1_000_000n : 1n;
    const reached = one.tiers.filter(({ from }) => from * unit <= month).at(-1)!;
    return divideHalfEven(own * (reached.rate_ppm ?? reached.amount_minor!), 1_000_000n);
  });
};
const sum = (parts: readonly bigint[]): bigint => parts.reduce((all, part) => all + part, 0n);
const monthEarns = (sold: readonly Sold[], all: readonly Contract[]): bigint => sum(partsEarn(sold, all));
/** The earnings of a month without the sales under review, at most as much as with them. */
const clearEarns = (sold: readonly Sold[], clear: readonly Sold[], all: readonly Contract[]): bigint =>
  smaller(monthEarns(clear, all), monthEarns(sold, all));
const onAccount = (entries: readonly LedgerEntry[], name: string): bigint =>
  -entries
    .flatMap(({ lines }) => lines)
    .filter(({ account }) => account === name)
    .reduce((sum, { amount_minor }) => sum + amount_minor, 0n);

describe("a month that was sold under several contracts", () => {
  test("earns the same in whatever order its sales come, each by the table it was sold under", () => {
    fc.assert(
      fc.property(months, successions, (sold, all) => {
        const paid = (order: readonly Sold[]): bigint =>
          sumOf(committed(history(happeningsOf(order)), byOf(order, all)));
        expect(paid(sold)).toBe(monthEarns(sold, all));
        expect(paid(sold.toReversed())).toBe(monthEarns(sold, all));
      }),
      { numRuns: 300 },
    );
  });

  test("holds what it earns less what it would earn without the sales under review, and a release frees it", () => {
    fc.assert(
      fc.property(months, successions, fc.nat(7), (sold, all, released) => {
        const happenings = [...happeningsOf(sold), { releaseOf: released }];
        const entries = committed(history(happenings), byOf(sold, all));
        const clear = sold.filter(({ review }, n) => review === null || n === released);
        expect(onAccount(entries, "payable:partner")).toBe(clearEarns(sold, clear, all));
        expect(onAccount(entries, "held:partner")).toBe(monthEarns(sold, all) - clearEarns(sold, clear, all));
      }),
      { numRuns: 300 },
    );
  });

  test("never loses what is payable when a review ends in a full refund", () => {
    fc.assert(
      fc.property(months, successions, (sold, all) => {
        const refunds = sold.flatMap(({ review }, n) => (review === null ? [] : [{ refundOf: n, minor: 10n ** 30n }]));
        const before = committed(history(happeningsOf(sold)), byOf(sold, all));
        const after = committed(history([...happeningsOf(sold), ...refunds]), byOf(sold, all));
        expect(onAccount(after, "payable:partner") >= onAccount(before, "payable:partner")).toBe(true);
        expect(onAccount(after, "held:partner")).toBe(0n);
      }),
      { numRuns: 300 },
    );
  });

  test("is nothing after all when everything is refunded, by account and by conversion", () => {
    fc.assert(
      fc.property(months, successions, (sold, all) => {
        const entries = committed(history(takenBack(happeningsOf(sold))), byOf(sold, all));
        const sums = new Map<string, bigint>();
        const add = (name: string, minor: bigint): unknown => sums.set(name, (sums.get(name) ?? 0n) + minor);
        for (const one of entries) {
          add(one.conversion_id, one.amount_minor);
          for (const { account, amount_minor } of one.lines) add(`${one.conversion_id} ${account}`, amount_minor);
        }
        for (const [name, sum] of sums) expect(`${name} ${sum}`).toBe(`${name} 0`);
      }),
      { numRuns: 300 },
    );
  });

  test("can be computed again from its receipts", () => {
    fc.assert(
      fc.property(months, successions, (sold, all) => {
        for (const one of committed(history(takenBack(happeningsOf(sold))), byOf(sold, all)))
          if (one.kind !== "none") expect(computedAgain(one)).toBe(one.amount_minor);
      }),
      { numRuns: 300 },
    );
  });
});

describe("a month that was sold under several contracts with caps", () => {
  const caps = fc.option(
    fc.record({ period: fc.constantFrom("month", "lifetime"), amount: fc.integer({ min: 1, max: 150 }) }),
  );
  const capped = fc.array(fc.tuple(tables, caps), { minLength: 2, maxLength: 3 }).map((all) =>
    all.map(([one, cap], n): Contract => {
      const terms = written({ ...one, cap });
      return { ...terms, contract_id: n + 1, effective_from: noon - (9 - n) * dayMs };
    }),
  );
  const happenings = fc.array(
    fc.oneof(
      { weight: 6, arbitrary: sales },
      { weight: 3, arbitrary: fc.record({ refundOf: fc.nat(7), minor: fc.bigInt({ min: 1n, max: 600_00n }) }) },
      { weight: 1, arbitrary: fc.record({ releaseOf: fc.nat(7) }) },
    ),
    { minLength: 1, maxLength: 12 },
  );
  const holds = (law: (entries: readonly LedgerEntry[], all: readonly Contract[]) => void, isTakenBack = false): void =>
    fc.assert(
      fc.property(happenings, capped, (drawn, all) => {
        const sold = drawn.filter((one) => "sale" in one);
        const made = drawn.map(
          (one): Happening => ("sale" in one ? { sale: one.sale, over: { review: one.review } } : one),
        );
        law(committed(history(isTakenBack ? takenBack(made) : made), byOf(sold, all)), all);
      }),
      { numRuns: 400 },
    );

  test("can be computed again from its receipts", () => {
    holds((entries) => {
      for (const one of entries)
        if (one.kind !== "none") expect(computedAgain(one), JSON.stringify(one.inputs)).toBe(one.amount_minor);
    });
  });

  test("never pays more by a contract than its cap, nor leaves an account or a contract below nothing", () => {
    holds((entries, all) => {
      for (const { contract_id, cap } of all) {
        const paid = sumOf(entries.filter((one) => one.contract_id === contract_id));
        expect(paid >= 0n && (cap === null || paid <= cap.amount_minor)).toBe(true);
      }
      expect(onAccount(entries, "held:partner") >= 0n && onAccount(entries, "payable:partner") >= 0n).toBe(true);
    });
  });

  test("gives the room of a refund first to a contract that rounding left a cent below nothing", () => {
    const cap = { period: "month", amount: 1 };
    const all = [
      {
        tiers: [
          { from: 0, amount: 0 },
          { from: 2, amount: 1 },
        ],
      },
      {
        tiers: [
          { from: 0, amount: 0 },
          { from: 2, amount: 2 },
        ],
        tier_mode: "retroactive",
        cap,
      },
      {
        tiers: [
          { from: 0, rate: 1 },
          { from: 290, rate: 2 },
        ],
        cap,
      },
    ].map((one, n) => ({ ...written({ type: "tiered", ...one }), contract_id: n + 1, effective_from: noon + n }));
    const sold = [75_50n, 88_48n, 126_03n].map((sale, n) => ({ sale, by: 2 - n, review: null }));
    const entries = committed(history([...happeningsOf(sold), { refundOf: 0, minor: 75_01n }]), byOf(sold, all));
    const paidBy = [2, 3].map((id) => sumOf(entries.filter(({ contract_id }) => contract_id === id)));
    expect(paidBy).toEqual([1_00n, 0n]);
  });

  test("is nothing after all when everything is refunded", () => {
    holds((entries) => {
      for (const account of ["expense:client", "held:partner", "payable:partner"])
        expect(onAccount(entries, account)).toBe(0n);
    }, true);
  });
});

/**
 * Memory in the format of before, in which each contract counted alone: one count of 61, another of
 * 62.
 */
const countOf = (over: object) => ({
  ...{ paid_minor: "0", units: "0", adjusted_minor: "0", adjusted_held_minor: "0", adjustments: 0, scale: null },
  ...over,
});
const steps = [
  { from: "0", price: "50000" },
  { from: "100000", price: "100000" },
];
const scaleOf = (mode: string, cap: object | null = null) => ({ mode, per: "value", currency: "MXN", steps, cap });
const soldBefore = (over: object) => ({
  ...{ format: 1, is: "conversion", entry_id: "led_1", reason: null, earned_minor: "5000", reversed_minor: "0" },
  ...{ held: false, payable_from: noon, contract_id: 61, contract_version: 1, commission_type: "tiered" },
  ...{ contract_segment: null, cap_period: null, units: "100000", units_back: "0", won_held: "0" },
  ...over,
});
const month = "7:21|period:2026-06:*:purchase";
const tieredBy = (tier_mode: string, contract_id = 61): Contract => ({
  ...written({
    type: "tiered",
    tier_mode,
    tiers: [
      { from: 0, rate: 5 },
      { from: 1_000, rate: 10 },
    ],
  }),
  contract_id,
});

/** The entries of changes on top of remembered values. */
const goOn = (values: Readonly<Record<string, object>>, ...changes: readonly [Recorded<Conversion>, Contract][]) => {
  const kept = new Map(
    Object.entries(values).map(([key, value]) => [key, Buffer.from(JSON.stringify(value)) as Uint8Array]),
  );
  return changes.flatMap(([event, one]) => {
    const { keys, state: met } = metBy(earned, event, kept);
    const outcome = commission(event, met, terms({ contract: one }));
    if (outcome.kind !== "emit") throw new Error("commission only emits");
    for (const { key, value } of bytesOf(earned, keys, met, outcome.state)) kept.set(key, value);
    return outcome.events.map(({ data }) => data);
  });
};
const saleOf = (minor: bigint, id: string, over: Partial<Conversion> = {}): Recorded<Conversion> =>
  change({ conversion_id: id, change_id: `chg_${id}`, value_minor: minor, line_value_minor: minor, ...over });
const refundOf = (minor: bigint, of: bigint, id = "cnv_1"): Recorded<Conversion> =>
  saleOf(of, id, {
    kind: "reversed",
    version: 2,
    value_minor: minor,
    refunded_minor: minor,
    change_id: `chg_back_${id}`,
  });
const amounts = (entries: readonly LedgerEntry[]): readonly bigint[] => entries.map(({ amount_minor }) => amount_minor);

describe("what was counted by contract", () => {
  const of = { 61: countOf({ paid_minor: "5000", units: "100000", scale: scaleOf("marginal") }) };
  const before = { "7:21|cnv:cnv_1": soldBefore({}), [month]: { format: 1, is: "counts", of } };

  test("is where the month goes on, for the same contract and for the one that follows", () => {
    expect(amounts(goOn(before, [saleOf(100_00n, "cnv_2"), tieredBy("marginal")]))).toEqual([10_00n]);
    const next = { ...tieredBy("marginal", 62), effective_from: noon };
    expect(amounts(goOn(before, [saleOf(100_00n, "cnv_2"), next]))).toEqual([10_00n]);
  });

  test("takes back what it counted", () => {
    const entries = goOn(
      before,
      [saleOf(100_00n, "cnv_2"), tieredBy("marginal")],
      [refundOf(1_000_00n, 1_000_00n), tieredBy("marginal")],
    );
    expect(amounts(entries)).toEqual([10_00n, -50_00n, -5_00n]);
    expect(entries[2]).toMatchObject({ kind: "tier_adjustment", reason: "tier_lost" });
  });

  test("goes on alone where two contracts had counts of one month: what was decided is priced no other way", () => {
    const both = { ...of, 62: countOf({ paid_minor: "2500", units: "50000", scale: scaleOf("marginal") }) };
    const values = { ...before, [month]: { format: 1, is: "counts", of: both } };
    expect(amounts(goOn(values, [refundOf(500_00n, 1_000_00n), tieredBy("marginal")]))).toEqual([-25_00n]);
  });

  test("is what a cap has used, whichever contract used it", () => {
    const used = { 61: countOf({ paid_minor: "1000" }), 62: countOf({ paid_minor: "200" }) };
    const capped = { ...written({ type: "percent", rate: 10, cap: { period: "month", amount: 15 } }), contract_id: 63 };
    const values = { [month]: { format: 1, is: "counts", of: used } };
    expect(amounts(goOn(values, [saleOf(100_00n, "cnv_2"), capped]))).toEqual([3_00n]);
  });

  test("holds what sales under review won, until they are released or lose it", () => {
    const held = countOf({
      ...{ paid_minor: "12000", units: "120000", scale: scaleOf("retroactive"), adjustments: 1 },
      ...{ adjusted_minor: "3000", adjusted_held_minor: "3000" },
    });
    const reviewed = soldBefore({ held: true, earned_minor: "6000", units: "60000", won_held: "3000" });
    const values = { "7:21|cnv:cnv_1": reviewed, [month]: { format: 1, is: "counts", of: { 61: held } } };
    const one = tieredBy("retroactive");
    const releasing = saleOf(600_00n, "cnv_1", {
      kind: "released",
      version: 2,
      change_id: "chg_free",
      reason: "agreed",
    });
    const released = goOn(values, [saleOf(100_00n, "cnv_2"), one], [releasing, one]);
    expect(amounts(released)).toEqual([10_00n, 0n, 0n]);
    expect(onAccount(released, "held:partner")).toBe(-90_00n);
    const lost = goOn(values, [refundOf(600_00n, 600_00n), one]);
    expect(amounts(lost)).toEqual([-60_00n, -30_00n]);
    expect(onAccount(lost, "held:partner")).toBe(-90_00n);
  });
});

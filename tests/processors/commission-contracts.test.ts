// Contracts that change, that count together or apart, and the entries of tiers that were reached
// and lost again.
import { describe, expect, test } from "vitest";
import type { Contract } from "../../domain/reference/reference.ts";
import type { LedgerEntry } from "../../schemas/generated.ts";
import { dayMs, noon } from "../support/builders.ts";
import { type Happening, history, sumOf, takenBack, written } from "../support/contract-builders.ts";
import { committed, terms } from "../support/money-builders.ts";

/** `contractOf` returns the contract for the n-th happening, as facts return it for a time. */
const entriesOf = (happenings: readonly Happening[], contractOf: (n: number) => Contract): readonly LedgerEntry[] =>
  committed(history(happenings), ({ data }) => terms({ contract: contractOf(Number(data.change_id.slice(4))) }));
const amountsOf = (happenings: readonly Happening[], contractOf: (n: number) => Contract): readonly bigint[] =>
  entriesOf(happenings, contractOf).map(({ amount_minor }) => amount_minor);
const sale = (minor: bigint, over: Extract<Happening, { sale: bigint }>["over"] = {}): Happening => ({
  sale: minor,
  over,
});
const all = 10n ** 18n;

const steps = [
  { from: 0, rate: 5 },
  { from: "1000.00", rate: 10 },
];
const marginal = written({ type: "tiered", tiers: steps });
const retroactive = written({ type: "tiered", tiers: steps, tier_mode: "retroactive" });

describe("a tier adjustment", () => {
  const entries = entriesOf([sale(600_00n), sale(600_00n), { refundOf: 1, minor: 300_00n }], () => retroactive);
  const [won, lost] = entries.filter(({ kind }) => kind === "tier_adjustment");

  test("stands beside the sale that won the tier, and belongs to the month", () => {
    expect(entries.map(({ kind }) => kind)).toEqual([
      "earned",
      "earned",
      "tier_adjustment",
      "reversal",
      "tier_adjustment",
    ]);
    expect(won).toMatchObject({
      amount_minor: 30_00n,
      reason: "tier_won",
      change_id: entries[1]?.change_id,
      conversion_version: 1,
      campaign_id: null,
      segment: null,
      contract_id: 61,
      commission_type: "tiered",
      payable_from: noon + 30 * dayMs,
      held: false,
      year: 2026,
      month: 6,
      lines: [
        { account: "expense:client", amount_minor: 30_00n },
        { account: "payable:partner", amount_minor: -30_00n },
      ],
    });
    expect(won?.conversion_id).toMatch(/^tier_[0-9a-f]{32}$/);
    expect(won?.entry_id).not.toBe(entries[1]?.entry_id);
  });

  test("is one of a series for its contract and month, and names the sale whose refund lost the tier", () => {
    expect(lost).toMatchObject({
      amount_minor: -45_00n,
      reason: "tier_lost",
      conversion_id: won?.conversion_id,
      conversion_version: 2,
      reverses_entry_id: entries[1]?.entry_id,
    });
    const july = sale(1_000_00n, { occurred_at: Date.UTC(2026, 6, 15) });
    const cheap = sale(999_99n, { occurred_at: Date.UTC(2026, 6, 14) });
    const ids = entriesOf([sale(999_99n), sale(1_000_00n), cheap, july], () => retroactive).filter(
      ({ kind }) => kind === "tier_adjustment",
    );
    expect(new Set(ids.map(({ conversion_id }) => conversion_id)).size).toBe(2);
  });

  test("says how it was computed, with every number", () => {
    expect(won?.formula).toBe(
      "amount = what the month's volume (5 % from 0.00 MXN on, 10 % from 1000.00 MXN on) earns now at " +
        "the tier that it reached, rounded half to even, less what was earned by it so far",
    );
    expect(JSON.parse(won?.inputs ?? "")).toEqual({
      currency: "MXN",
      month: "2026-06",
      tier_mode: "retroactive",
      tiers: [
        { from_minor: "0", rate_ppm: "50000" },
        { from_minor: "100000", rate_ppm: "100000" },
      ],
      volume_before_minor: "60000",
      volume_after_minor: "120000",
      volume_earns_minor: "12000",
      earned_before_minor: "9000",
      amount_minor: "3000",
    });
  });

  test("won by a sale under review is held, and what is lost is taken from there first", () => {
    const reviewed = { review: "fraud_review" };
    const held = entriesOf(
      [sale(600_00n), sale(600_00n, reviewed), { refundOf: 1, minor: all }, { refundOf: 0, minor: all }],
      () => retroactive,
    );
    expect(held[2]).toMatchObject({
      held: true,
      lines: [{ amount_minor: 30_00n }, { account: "held:partner", amount_minor: -30_00n }],
    });
    expect(held[4]).toMatchObject({
      held: true,
      lines: [{ amount_minor: -30_00n }, { account: "held:partner", amount_minor: 30_00n }],
    });
    expect(held.length).toBe(6);
  });
});

describe("a contract that got other terms", () => {
  const better = { ...written({ type: "tiered", tiers: [{ from: 0, rate: 20 }] }), version: 2 };

  test("in the middle of a month prices no sale that was known before, whichever claim comes last", () => {
    expect(amountsOf([sale(100_00n), sale(100_00n)], (n) => (n === 0 ? marginal : better))).toEqual([5_00n, 20_00n]);
    expect(amountsOf([sale(100_00n), sale(100_00n)], (n) => (n === 0 ? better : marginal))).toEqual([20_00n, 5_00n]);
  });

  test("takes back by the terms that the month was settled with, though it is of another type by now", () => {
    const percent = written({ type: "percent", rate: 50 });
    expect(amountsOf([sale(100_00n), { refundOf: 0, minor: 40_00n }], (n) => (n === 0 ? marginal : percent))).toEqual([
      5_00n,
      -2_00n,
    ]);
  });

  test("and a cap below what was paid takes nothing back, and never leaves a month below nothing", () => {
    const may = { occurred_at: noon - 30 * dayMs };
    const capped = written({ type: "tiered", tiers: steps, cap: { period: "lifetime", amount: 500 } });
    const lowered = {
      ...written({ type: "tiered", tiers: steps, cap: { period: "lifetime", amount: 10 } }),
      version: 2,
    };
    const happenings = [
      sale(1_000_00n, may),
      sale(1_000_00n),
      sale(1_000_00n),
      sale(1_00n),
      { refundOf: 1, minor: all },
      { refundOf: 2, minor: all },
      { refundOf: 3, minor: all },
      { refundOf: 0, minor: all },
    ];
    const entries = entriesOf(happenings, (n) => (n < 3 ? capped : lowered));
    expect(entries.map(({ amount_minor }) => amount_minor)).toEqual([
      50_00n,
      50_00n,
      100_00n,
      0n,
      -50_00n,
      -50_00n,
      -100_00n,
      50_00n,
      0n,
      -50_00n,
    ]);
    expect(sumOf(entries)).toBe(0n);
  });

  test("by a cap counts what was earned since it has one", () => {
    const capped = written({ type: "percent", rate: 10, cap: { period: "month", amount: 12 } });
    const free = written({ type: "percent", rate: 10 });
    expect(amountsOf([sale(100_00n), sale(100_00n), sale(100_00n)], (n) => (n === 0 ? free : capped))).toEqual([
      10_00n,
      10_00n,
      2_00n,
    ]);
  });

  test("and a refund of a sale from before a cap returns no room", () => {
    const capped = written({ type: "percent", rate: 10, cap: { period: "month", amount: 10 } });
    const free = written({ type: "percent", rate: 10 });
    const happenings = [sale(100_00n), sale(100_00n), { refundOf: 0, minor: all }, sale(100_00n)];
    expect(amountsOf(happenings, (n) => (n === 0 ? free : capped))).toEqual([10_00n, 10_00n, -10_00n, 0n]);
  });

  test("by its successor goes on with the month's volume, and late sales of the first one do, too", () => {
    const first = { ...marginal, contract_id: 1 };
    const second = { ...marginal, contract_id: 2, effective_from: noon };
    expect(amountsOf([sale(1_000_00n), sale(100_00n), sale(100_00n)], (n) => (n === 1 ? second : first))).toEqual([
      50_00n,
      10_00n,
      10_00n,
    ]);
  });

  test("by its successor goes on with what the cap has left", () => {
    const first = { ...written({ type: "percent", rate: 10, cap: { period: "month", amount: 15 } }), contract_id: 1 };
    const second = { ...written({ type: "percent", rate: 20, cap: { period: "month", amount: 15 } }), contract_id: 2 };
    expect(amountsOf([sale(100_00n), sale(100_00n)], (n) => (n === 0 ? first : second))).toEqual([10_00n, 5_00n]);
  });

  test("and a sale of each wins the tier of the other's, each by its own table", () => {
    const first = { ...retroactive, contract_id: 1 };
    const terms = {
      type: "tiered",
      tier_mode: "retroactive",
      tiers: [
        { from: 0, rate: 6 },
        { from: 1_000, rate: 12 },
      ],
    };
    const second = { ...written(terms), contract_id: 2, effective_from: noon };
    const entries = entriesOf([sale(600_00n), sale(600_00n), { refundOf: 1, minor: all }], (n) =>
      n === 0 ? first : second,
    );
    expect(entries.map(({ amount_minor, reason, contract_id }) => [amount_minor, reason, contract_id])).toEqual([
      [30_00n, null, 1],
      [72_00n, null, 2],
      [30_00n, "tier_won", 1],
      [-72_00n, "item_returned", 2],
      [-30_00n, "tier_lost", 1],
    ]);
  });

  test("and counts sales after one that counts money: both go on", () => {
    const first = { ...marginal, contract_id: 1 };
    const terms = {
      type: "tiered",
      tiers: [
        { from: 0, amount: 1 },
        { from: 2, amount: 7 },
      ],
    };
    const second = { ...written(terms), contract_id: 2, effective_from: noon };
    expect(
      amountsOf([sale(900_00n), sale(50_00n), sale(200_00n), sale(100_00n)], (n) => (n % 2 === 0 ? first : second)),
    ).toEqual([45_00n, 1_00n, 15_00n, 6_00n, 7_00n]);
  });
});

describe("what is counted together", () => {
  const flights = { segment: "MX" };
  const hotels = { segment: "VD" };

  test("are all segments, for a contract of all of them", () => {
    expect(
      amountsOf([sale(1_000_00n, flights), sale(100_00n, hotels), sale(100_00n, { segment: null })], () => marginal),
    ).toEqual([50_00n, 10_00n, 10_00n]);
  });

  test("is one segment, for a contract of that one", () => {
    const ofFlights = written({ type: "tiered", tiers: steps, segment: "MX" });
    const others = { ...marginal, contract_id: 62 };
    const happenings = [sale(1_000_00n, flights), sale(100_00n, hotels), sale(100_00n, flights)];
    expect(amountsOf(happenings, (n) => (n === 1 ? others : ofFlights))).toEqual([50_00n, 5_00n, 10_00n]);
  });

  test("is one event type", () => {
    const leads = { ...marginal, event_type: "lead_submit" };
    const happenings = [sale(1_000_00n), sale(100_00n, { event_type: "lead_submit" })];
    expect(amountsOf(happenings, (n) => (n === 0 ? marginal : leads))).toEqual([50_00n, 5_00n]);
  });

  test("is what one partner sells", () => {
    expect(amountsOf([sale(1_000_00n), sale(100_00n, { partner_id: 22 })], () => marginal)).toEqual([50_00n, 5_00n]);
  });

  test("are the sales of a day of Mexico City, to the millisecond (M12)", () => {
    const daily = written({ type: "percent", rate: 10, cap: { period: "day", amount: 10 } });
    const midnight = Date.UTC(2026, 5, 2, 6);
    const times = [midnight - 1, midnight, midnight + 18 * 3_600_000, midnight + dayMs - 1, midnight + dayMs];
    expect(
      amountsOf(
        times.map((occurred_at) => sale(100_00n, { occurred_at })),
        () => daily,
      ),
    ).toEqual([10_00n, 10_00n, 0n, 0n, 10_00n]);
  });
});

describe("the months of a recurring contract", () => {
  const monthly = written({ type: "recurring", rate: 10, months: 1 });
  const at = (occurred_at: number): Happening => sale(100_00n, { occurred_at });

  test("end with the first millisecond of their last day in Mexico City", () => {
    const end = Date.UTC(2026, 6, 15, 6);
    expect(amountsOf([at(noon), at(end - 1), at(end)], () => monthly)).toEqual([10_00n, 10_00n, 0n]);
  });

  test("begin earlier when an earlier sale comes late", () => {
    expect(amountsOf([at(noon), at(noon - 20 * dayMs), at(noon + 20 * dayMs)], () => monthly)).toEqual([
      10_00n,
      10_00n,
      0n,
    ]);
  });

  test("go on with a contract's successor", () => {
    expect(amountsOf([at(noon), at(noon + 40 * dayMs)], (n) => ({ ...monthly, contract_id: n + 1 }))).toEqual([
      10_00n,
      0n,
    ]);
  });

  test("do not begin again when all was refunded", () => {
    const happenings = [at(noon), { refundOf: 0, minor: all }, at(noon + 40 * dayMs)];
    expect(entriesOf(happenings, () => monthly)[2]).toMatchObject({
      kind: "none",
      reason: "months_over",
      amount_minor: 0n,
    });
  });

  test("are shown by the receipt", () => {
    const [first] = entriesOf([at(noon)], () => monthly);
    expect(first?.formula).toBe(
      "amount = line value x 10 %, rounded half to even to the minor unit; for 1 month from the " +
        "customer's first sale on",
    );
    expect(JSON.parse(first?.inputs ?? "")).toMatchObject({
      customer_since: "2026-06-15",
      months: 1,
      paid_until: "2026-07-15",
    });
  });
});

test("a cap, a minimum and a maximum are shown by the receipt", () => {
  const one = written({
    type: "hybrid",
    amount: 1,
    rate: 2,
    min: "2.50",
    max: 9,
    cap: { period: "lifetime", amount: 10 },
  });
  const [first] = entriesOf([sale(50_00n)], () => one);
  expect(first?.formula).toBe(
    "amount = 1.00 MXN an order + line value x 2 %, the product rounded half to even to the minor unit, at " +
      "least 2.50 MXN an order, at most 9.00 MXN an order, at most what is left of 10.00 MXN in all",
  );
  expect(JSON.parse(first?.inputs ?? "")).toEqual({
    line_value_minor: "5000",
    currency: "MXN",
    flat_minor: "100",
    rate_ppm: "20000",
    min_minor: "250",
    max_minor: "900",
    cap_period: "lifetime",
    cap_minor: "1000",
    cap_used_before_minor: "0",
    hold_days: 30,
    amount_minor: "250",
  });
});

test(
  "a sale that the cap left nothing for still counts in the volume of its month, and is taken out " + "with its refund",
  () => {
    const one = written({ type: "tiered", tiers: steps, cap: { period: "month", amount: 50 } });
    const happenings = [sale(1_000_00n), sale(1_000_00n), { refundOf: 1, minor: all }, { refundOf: 0, minor: 500_00n }];
    expect(amountsOf(happenings, () => one)).toEqual([50_00n, 0n, 0n, -25_00n]);
    expect(sumOf(entriesOf(takenBack(happenings), () => one))).toBe(0n);
  },
);

// What a conversion earns, what is taken back, and the receipt of both (docs/design/money.md,
// "Commissions").
import { describe, expect, test } from "vitest";
import { type Contract, reference } from "../../domain/reference/reference.ts";
import { commission } from "../../processors/commission/commission.ts";
import { contracts } from "../../processors/commission/contracts.ts";
import { earned } from "../../processors/commission/memory.ts";
import { topics } from "../../topics.ts";
import {
  client,
  contract,
  conversion,
  dayMs,
  longAgo,
  noon,
  reads,
  recorded,
  referenceWith,
} from "../support/builders.ts";
import { change, committed, entry, refund, sale, settled, terms } from "../support/money-builders.ts";
import { stateFrom } from "../support/remembered.ts";

const inPesos = { currency: "MXN" } as const;
const rateFrom = (from: bigint, rate_ppm: bigint) => ({ from, rate_ppm, amount_minor: null });
const reversed = (refunded: bigint, over: Parameters<typeof change>[0] = {}) =>
  change({
    change_id: `chg_${refunded}`,
    kind: "reversed",
    version: 2,
    refunded_minor: refunded,
    reason: "item_returned",
    ...over,
  });

describe("a percent contract", () => {
  test("earns its share of the line, balanced, with a receipt", () => {
    const [entered] = committed([change()]);
    expect(entered).toEqual(
      entry({
        entry_id: entered!.entry_id,
        inputs:
          '{"line_value_minor":"10000","currency":"MXN","rate_ppm":"100000","hold_days":30,"amount_minor":"1000"}',
      }),
    );
    expect(entered?.entry_id).toMatch(/^led_[0-9a-f]{32}$/);
  });

  test.each([
    ["a half to the even cent below", 5n, 500_000n, 2n],
    ["a half to the even cent above", 7n, 500_000n, 4n],
    ["more than a half up", 17n, 100_000n, 2n],
    ["less than a half down", 14n, 100_000n, 1n],
  ])("rounds %s", (_, value, rate_ppm, amount) => {
    const [entered] = committed([change({ line_value_minor: value })], () =>
      terms({ contract: contract({ rate_ppm }) }),
    );
    expect(entered?.amount_minor).toBe(amount);
  });

  test.each([
    [100_000n, "10 %"],
    [125_000n, "12.5 %"],
    [1_000_000n, "100 %"],
    [50n, "0.005 %"],
  ])("of %d parts per million reads %s", (rate_ppm, text) => {
    expect(
      committed([change({ line_value_minor: 10n ** 9n })], () => terms({ contract: contract({ rate_ppm }) }))[0]
        ?.formula,
    ).toContain(`x ${text},`);
  });

  test("pays in the currency of the sale, whatever the client's", () => {
    expect(committed([change({ currency: "USD" })])[0]).toMatchObject({ currency: "USD", amount_minor: 10_00n });
  });

  test("is payable after the hold, counted from the sale", () => {
    expect(committed([change({ occurred_at: noon - dayMs })])[0]?.payable_from).toBe(noon + 29 * dayMs);
    expect(committed([change()], () => terms({ holdDays: 0 }))[0]?.payable_from).toBe(noon);
  });

  test("belongs to the month of the sale in Mexico City", () => {
    expect(committed([change({ occurred_at: Date.UTC(2026, 0, 1, 6) - 1 })])[0]).toMatchObject({
      year: 2025,
      month: 12,
    });
    expect(committed([change({ occurred_at: Date.UTC(2026, 0, 1, 6) })])[0]).toMatchObject({ year: 2026, month: 1 });
  });
});

describe("a review", () => {
  test("books to held:partner, and says why", () => {
    expect(committed([change({ review: "fraud_review" })])[0]).toMatchObject({
      held: true,
      reason: "fraud_review",
      lines: [{ account: "expense:client" }, { account: "held:partner" }],
    });
  });

  test("is taken back from held:partner", () => {
    const entries = committed([change({ review: "fraud_review" }), reversed(100_00n, { review: null })]);
    expect(entries[1]).toMatchObject({
      held: true,
      lines: [{ account: "expense:client" }, { account: "held:partner", amount_minor: 10_00n }],
    });
  });
});

describe("a conversion that earns nothing has an entry without lines that says why", () => {
  const nothing =
    (over: Partial<Contract>, facts: Partial<ReturnType<typeof terms>> = {}) =>
    () =>
      terms({ contract: contract(over), ...facts });

  test.each([
    ["no contract", {}, () => terms({ contract: undefined }), "no_contract"],
    ["a line worth nothing", { line_value_minor: 0n, value_minor: 0n }, () => terms(), "zero_value"],
    ["a share below half a cent", { line_value_minor: 4n }, () => terms(), "rounds_to_zero"],
    ["a type whose amount is missing", {}, nothing({ type: "flat" }), "incomplete_contract"],
    ["an amount without its currency", {}, nothing({ type: "flat", amount_minor: 5_00n }), "incomplete_contract"],
    ["a percent contract without a rate", {}, nothing({ rate_ppm: null }), "incomplete_contract"],
    [
      "a recurring contract that pays both a rate and an amount",
      {},
      nothing({ type: "recurring", ...inPesos, amount_minor: 5_00n }),
      "incomplete_contract",
    ],
    [
      "tiers that pay nothing known",
      {},
      nothing({ type: "tiered", ...inPesos, tiers: [{ from: 0n, rate_ppm: null, amount_minor: null }] }),
      "incomplete_contract",
    ],
    [
      "tiers that begin above zero",
      {},
      nothing({ type: "tiered", ...inPesos, tiers: [rateFrom(1n, 1n)] }),
      "incomplete_contract",
    ],
    [
      "tiers out of order",
      {},
      nothing({ type: "tiered", ...inPesos, tiers: [rateFrom(0n, 1n), rateFrom(5n, 1n), rateFrom(4n, 1n)] }),
      "incomplete_contract",
    ],
    [
      "a flat amount",
      { currency: "USD" },
      nothing({ type: "flat", ...inPesos, amount_minor: 5_00n }),
      "currency_mismatch",
    ],
    ["a minimum", { currency: "USD" }, nothing({ ...inPesos, min_minor: 1n }), "currency_mismatch"],
    ["a maximum", { currency: "USD" }, nothing({ ...inPesos, max_minor: 1n }), "currency_mismatch"],
    [
      "a cap",
      { currency: "USD" },
      nothing({ ...inPesos, cap: { period: "day", amount_minor: 1n } }),
      "currency_mismatch",
    ],
    [
      "tiers",
      { currency: "USD" },
      nothing({ type: "tiered", ...inPesos, tiers: [rateFrom(0n, 1n)] }),
      "currency_mismatch",
    ],
  ] as const)("%s", (_, over, facts, reason) => {
    expect(committed([change(over)], facts)).toMatchObject([
      { kind: "none", amount_minor: 0n, lines: [], reason, payable_from: null, held: false },
    ]);
  });

  test("and nothing is taken back from it", () => {
    const entries = committed([change(), reversed(100_00n)], () => terms({ contract: undefined }));
    expect(entries[1]).toMatchObject({
      kind: "none",
      amount_minor: 0n,
      lines: [],
      reason: "no_contract",
      reverses_entry_id: null,
    });
  });

  test("a reversal of what was never credited", () => {
    expect(committed([reversed(100_00n)])).toMatchObject([{ kind: "none", reason: "not_credited" }]);
  });
});

describe("a refund", () => {
  test("takes back in proportion, from the entry that it names, with a receipt", () => {
    const entries = committed([change(), reversed(30_00n)]);
    expect(entries[1]).toMatchObject({
      kind: "reversal",
      amount_minor: -3_00n,
      lines: [
        { account: "expense:client", amount_minor: -3_00n },
        { account: "payable:partner", amount_minor: 3_00n },
      ],
      reason: "item_returned",
      reverses_entry_id: entries[0]?.entry_id,
      conversion_version: 2,
      contract_id: 61,
      inputs:
        '{"earned_minor":"1000","refunded_minor":"3000","line_value_minor":"10000",' +
        '"reversed_before_minor":"0","currency":"MXN","amount_minor":"-300"}',
    });
  });

  test("of the rest takes back exactly the rest, however the parts were rounded", () => {
    const line = { line_value_minor: 100n, value_minor: 100n };
    const parts = [33n, 66n, 100n].map((refunded) => reversed(refunded, line));
    const entries = committed([change(line), ...parts], () => terms({ contract: contract({ rate_ppm: 50_000n }) }));
    expect(entries.map((one) => one.amount_minor)).toEqual([5n, -2n, -1n, -2n]);
  });

  test("too small to take back a cent is an entry all the same", () => {
    expect(committed([change(), reversed(4n)])[1]).toMatchObject({ kind: "reversal", amount_minor: 0n, lines: [] });
  });

  test("takes back by the contract of the sale, though another is in force by now", () => {
    const entries = committed([change(), reversed(100_00n)], ({ data }) =>
      terms({ contract: data.kind === "reversed" ? contract({ contract_id: 62, rate_ppm: 900_000n }) : contract() }),
    );
    expect(entries[1]).toMatchObject({ amount_minor: -10_00n, contract_id: 61 });
  });

  test("keeps the month and the hold of its sale", () => {
    const [credited, taken] = settled(sale({ at: noon - 40 * dayMs }), refund({ at: noon })).conversions;
    const entries = committed([credited!, taken!]);
    expect(entries[1]).toMatchObject({
      year: 2026,
      month: 5,
      payable_from: entries[0]!.payable_from,
      occurred_at: noon - 40 * dayMs,
    });
  });
});

describe("conversions beside each other", () => {
  test("do not share what they earned", () => {
    const other = { conversion_id: "cnv_2", change_id: "chg_other" };
    const entries = committed([
      change(),
      change({ ...other, line_value_minor: 50_00n }),
      reversed(50_00n, { ...other, change_id: "chg_3", line_value_minor: 50_00n }),
    ]);
    expect(entries.map((one) => one.amount_minor)).toEqual([10_00n, 5_00n, -5_00n]);
  });

  test(
    "have a value of their own in memory, beside what their periods and their customer may have with " +
      "either contract",
    () => {
      const event = recorded(topics.conversions, conversion());
      expect(earned.keysOf(event)).toEqual([
        "7:21|cnv:cnv_1",
        "7:21|period:2026-06-15:MX:purchase",
        "7:21|period:2026-06:MX:purchase",
        "7:21|period:all:MX:purchase",
        "7:21|order:o1:MX:purchase",
        "7:21|customer:MX:purchase:d1",
        "7:21|period:2026-06-15:*:purchase",
        "7:21|period:2026-06:*:purchase",
        "7:21|period:all:*:purchase",
        "7:21|order:o1:*:purchase",
        "7:21|customer:*:purchase:d1",
      ]);
    },
  );

  test("are kept apart whatever text is in their names, and no name holds the sign that ends a record key", () => {
    const named = (over: Parameters<typeof conversion>[0]) =>
      earned.keysOf(recorded(topics.conversions, conversion(over)));
    const names = [
      { segment: "*" },
      { segment: null },
      { segment: "a:b", event_type: "c" },
      { segment: "a", event_type: "b:c" },
      { customer: "a|b:c%d" },
    ];
    const sets = names.map((over) => named(over).slice(1).join(" "));
    expect(new Set(sets).size).toBe(names.length);
    for (const key of names.flatMap(named)) expect(key.split("|").length).toBe(2);
  });

  test("written before periods were counted are read as they are", () => {
    const old = {
      format: 1,
      entry_id: "led_1",
      reason: null,
      earned_minor: "1000",
      reversed_minor: "0",
      held: false,
      payable_from: noon,
    };
    const key = "7:21|cnv:cnv_1";
    const bytes = Buffer.from(
      JSON.stringify({ ...old, contract_id: 61, contract_version: 1, commission_type: "percent" }),
    );
    const outcome = commission(reversed(100_00n), stateFrom(earned, [key], [bytes]), terms());
    expect(outcome).toMatchObject({
      events: [{ data: { kind: "reversal", amount_minor: -10_00n, reverses_entry_id: "led_1" } }],
    });
  });

  test("remembered in a form that is not known are an error, never nothing", () => {
    expect(() => stateFrom(earned, ["k|cnv:1"], [Buffer.from('{"format":3}')])).toThrow(/format 3/);
    expect(() => stateFrom(earned, ["k|cnv:1"], [Buffer.from("[3]")])).toThrow(/format 3/);
  });
});

describe("the facts of a commission", () => {
  const factsOf = async (rows: Parameters<typeof referenceWith>[0], event = change()) =>
    (await contracts.load([event], reads([reference, referenceWith(rows)])))(event);

  test("are the contract of the sale and its client's hold for this kind of event", async () => {
    expect(await factsOf({})).toEqual({
      contract: contract(),
      holdDays: 30,
      openMonth: null,
      openMonthAt: expect.any(Function),
    });
    expect((await factsOf({}, change({ event_type: "lead_submit" }))).holdDays).toBe(0);
  });

  test("are those valid at the time of the sale", async () => {
    const contractsOfTheYear = [
      contract({ contract_id: 1, rate_ppm: 1n, effective_from: longAgo, effective_to: noon }),
      contract({ contract_id: 2, rate_ppm: 2n, effective_from: noon }),
    ];
    expect(
      (await factsOf({ contracts: contractsOfTheYear }, change({ occurred_at: noon - 1 }, noon))).contract?.contract_id,
    ).toBe(1);
    expect(
      (await factsOf({ contracts: contractsOfTheYear }, change({ occurred_at: noon }, noon))).contract?.contract_id,
    ).toBe(2);
  });

  test("are those known when the claim was received", async () => {
    const versions = [contract({ version: 1 }), contract({ version: 2, recorded_at: noon, rate_ppm: 200_000n })];
    expect((await factsOf({ contracts: versions }, change({}, noon - 1))).contract?.version).toBe(1);
    expect((await factsOf({ contracts: versions }, change({}, noon))).contract?.version).toBe(2);
  });

  test("prefer the contract of the segment", async () => {
    const both = [contract({ contract_id: 1 }), contract({ contract_id: 2, segment: "MX" })];
    expect((await factsOf({ contracts: both })).contract?.contract_id).toBe(2);
    expect((await factsOf({ contracts: both }, change({ segment: "VD" }))).contract?.contract_id).toBe(1);
  });

  test("of an unknown client are no contract and no hold", async () => {
    expect(await factsOf({ clients: [client({ client_id: 8 })], contracts: [] })).toEqual({
      contract: undefined,
      holdDays: 0,
      openMonth: null,
      openMonthAt: expect.any(Function),
    });
  });

  test("are read as of the newest receipt of the batch", async () => {
    const asked: number[] = [];
    await contracts.load([change({}, noon), change({}, noon + 5), change({}, noon + 1)], (_, asOf) => {
      asked.push(asOf);
      return Promise.resolve(referenceWith() as never);
    });
    expect(asked).toEqual([noon + 5]);
  });
});

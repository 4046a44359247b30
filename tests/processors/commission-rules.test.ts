// Histories in which events, copies, refunds and contracts meet. Each one was paid wrong once.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type Contract, type ReferenceRows, reference } from "../../domain/reference/reference.ts";
import { commission } from "../../processors/commission/commission.ts";
import { contracts } from "../../processors/commission/contracts.ts";
import { earned } from "../../processors/commission/memory.ts";
import type { Claim, Conversion, LedgerEntry } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { client, contract, dayMs, noon, reads, referenceWith } from "../support/builders.ts";
import { type Happening, history, sumOf, written } from "../support/contract-builders.ts";
import { change, committed, refund, sale, settled, terms } from "../support/money-builders.ts";
import { metBy } from "../support/remembered.ts";

/** The entries of claims, under the facts of these reference rows. */
const booked = async (
  claims: readonly Recorded<Claim>[],
  rows: Partial<ReferenceRows> = {},
): Promise<readonly LedgerEntry[]> => {
  const { conversions } = settled(...claims);
  return committed(conversions, await contracts.load(conversions, reads([reference, referenceWith(rows)])));
};

describe("an order line has one contract, whichever copy came first", () => {
  const app = sale({ t: "ext_purchase", did: "app", partner: null });
  const shop = sale();

  test("an ext_purchase before its purchase pays what the purchase before it pays", async () => {
    const credited = sale({ t: "ext_purchase", did: "app" });
    expect(sumOf(await booked([credited, shop]))).toBe(10_00n);
    expect(sumOf(await booked([shop, credited]))).toBe(10_00n);
    expect(sumOf(await booked([app, shop]))).toBe(10_00n);
  });

  test("an ext_purchase waits for the hold of purchase, and its cap and volume are those of purchase", async () => {
    const entries = await booked([sale({ t: "ext_purchase" })], { clients: [client({ hold_days: { purchase: 14 } })] });
    expect(entries[0]?.payable_from).toBe(noon + 14 * dayMs);
    const capped = written({ type: "percent", rate: 10, cap: { period: "month", amount: 15 } });
    const orders = [sale(), sale({ t: "ext_purchase", order_id: "o2" })];
    expect((await booked(orders, { contracts: [capped] })).map(({ amount_minor }) => amount_minor)).toEqual([
      10_00n,
      5_00n,
    ]);
  });

  test("a contract that was saved for ext_purchase pays nothing beside it", async () => {
    const own = contract({ contract_id: 62, event_type: "ext_purchase", rate_ppm: 500_000n });
    expect(sumOf(await booked([sale({ t: "ext_purchase" })], { contracts: [contract(), own] }))).toBe(10_00n);
    expect(await booked([sale({ t: "ext_purchase" })], { contracts: [own] })).toMatchObject([
      { reason: "no_contract" },
    ]);
  });

  test("what an ext_purchase earned while it had counts of its own goes back to these", () => {
    const key = "7:21|period:2026-06:*:ext_purchase";
    const before: Readonly<Record<string, object>> = {
      "7:21|cnv:cnv_1": {
        ...{ format: 1, is: "conversion", entry_id: "led_1", reason: null, earned_minor: "1000", reversed_minor: "0" },
        ...{ held: false, payable_from: noon, contract_id: 62, contract_version: 1, commission_type: "percent" },
        ...{ contract_segment: null, cap_period: "month", units: null, units_back: "0", won_held: "0" },
      },
      [key]: {
        format: 1,
        is: "counts",
        of: {
          62: {
            ...{ paid_minor: "1000", units: "0", adjusted_minor: "0", adjusted_held_minor: "0", adjustments: 0 },
            scale: null,
          },
        },
      },
    };
    const refunded: Partial<Conversion> = { kind: "reversed", event_type: "ext_purchase", refunded_minor: 100_00n };
    const event = change({ ...refunded, version: 2 });
    const known = new Map(Object.entries(before).map(([one, value]) => [one, Buffer.from(JSON.stringify(value))]));
    const { keys, state: met } = metBy(earned, event, known);
    const outcome = commission(event, met, terms());
    if (outcome.kind !== "emit") throw new Error("commission only emits");
    const changed = earned.changes(keys, met, outcome.state);
    expect(changed.map(({ key: one }) => one)).toEqual(["7:21|cnv:cnv_1", key]);
    expect(outcome.events).toMatchObject([{ data: { kind: "reversal", amount_minor: -10_00n } }]);
  });
});

describe("a month that is closed", () => {
  const june = { client_id: 7, partner_id: 21, year: 2026, month: 6 };
  const closed = { ...june, status: "closed" as const, recorded_at: noon + 20 * dayMs, valid_from: 0 };
  const october = noon + 120 * dayMs;
  const booking = (entries: readonly LedgerEntry[]) =>
    entries.map(({ kind, amount_minor, month }) => [kind, amount_minor, month]);

  test("takes no refund: it is an adjustment in the first month that is open", async () => {
    const claims = [sale(), refund({ receivedAt: october, at: october })];
    expect(booking(await booked(claims, { periods: [closed] }))).toEqual([
      ["earned", 10_00n, 6],
      ["adjustment", -10_00n, 7],
    ]);
    const [earning, back] = await booked(claims, { periods: [closed, { ...closed, month: 7 }] });
    expect(back).toMatchObject({ year: 2026, month: 8, reason: "other", reverses_entry_id: earning?.entry_id });
    expect(back?.formula).toMatch(/; the month of the sale is closed, so it is booked in the first open one$/);
    expect(booking(await booked(claims))).toEqual([
      ["earned", 10_00n, 6],
      ["reversal", -10_00n, 6],
    ]);
  });

  test("takes no amendment: old and new amount are adjustments in the first one that is open", async () => {
    const claims = [sale(), sale({ value_minor: 80_00n, receivedAt: october, at: october })];
    expect(booking(await booked(claims, { periods: [closed] }))).toEqual([
      ["earned", 10_00n, 6],
      ["adjustment", -10_00n, 7],
      ["adjustment", 8_00n, 7],
    ]);
    expect(booking(await booked(claims))).toEqual([
      ["earned", 10_00n, 6],
      ["reversal", -10_00n, 6],
      ["earned", 8_00n, 6],
    ]);
  });

  test("takes no late sale either, and what earns nothing stays with its sale", async () => {
    const late = sale({ receivedAt: october });
    expect(booking(await booked([late], { periods: [closed] }))).toEqual([["adjustment", 10_00n, 7]]);
    expect(booking(await booked([late], { periods: [closed], contracts: [] }))).toEqual([["none", 0n, 6]]);
  });

  test("is one that was known to be closed when the claim came, and of this partner and client", async () => {
    const early = [sale(), refund({ receivedAt: noon + dayMs })];
    expect(booking(await booked(early, { periods: [closed] }))[1]).toEqual(["reversal", -10_00n, 6]);
    const late = [sale(), refund({ receivedAt: october })];
    const opened = { ...closed, status: "open" as const, recorded_at: noon + 30 * dayMs };
    for (const periods of [[closed, opened], [{ ...closed, partner_id: 22 }], [{ ...closed, client_id: 8 }]])
      expect(booking(await booked(late, { periods }))[1]).toEqual(["reversal", -10_00n, 6]);
  });

  test("keeps its tiers: what a refund loses of them goes to the open month, too, and the year may end", async () => {
    const tiers = [
      { from: 0, rate: 5 },
      { from: 150, rate: 10 },
    ];
    const contracts = [written({ type: "tiered", tier_mode: "retroactive", tiers })];
    const claims = [sale(), sale({ order_id: "o2" }), refund({ receivedAt: october, order_id: "o2" })];
    const months = [6, 7, 8, 9, 10, 11, 12].map((month) => ({ ...closed, month }));
    const entries = await booked(claims, { contracts, periods: months });
    expect(booking(entries)).toEqual([
      ["earned", 5_00n, 6],
      ["earned", 10_00n, 6],
      ["tier_adjustment", 5_00n, 6],
      ["adjustment", -10_00n, 1],
      ["tier_adjustment", -5_00n, 1],
    ]);
    expect(entries.at(-1)).toMatchObject({ year: 2027, conversion_id: entries[2]?.conversion_id });
  });
});

describe("the months of a customer", () => {
  const monthly = written({ type: "recurring", rate: 10, months: 1 });
  const bought = (order_id: string, day: number, did: string, person: string | null, warnings: string[] = []) => {
    const claim = sale({ order_id, did, at: noon + day * dayMs, warnings });
    const { attributed } = claim.data;
    const enrichment = { ...attributed.enrichment, person };
    return { ...claim, data: { ...claim.data, attributed: { ...attributed, enrichment } } };
  };
  const paid = async (...claims: readonly Recorded<Claim>[]) =>
    (await booked(claims, { contracts: [monthly] })).map(({ amount_minor }) => amount_minor);

  test("are those of the person, whatever device is used", async () => {
    expect(await paid(bought("o1", 0, "d1", "email:ana"), bought("o2", 40, "d2", "email:ana"))).toEqual([10_00n, 0n]);
    expect(await paid(bought("o1", 0, "d1", "email:ana"), bought("o2", 40, "d1", "email:leo"))).toEqual([
      10_00n,
      10_00n,
    ]);
  });

  test("are those of the device where no person is known", async () => {
    expect(await paid(bought("o1", 0, "d1", null), bought("o2", 40, "d1", null))).toEqual([10_00n, 0n]);
    expect(await paid(bought("o1", 0, "d1", null), bought("o2", 40, "d1", "email:ana"))).toEqual([10_00n, 10_00n]);
  });

  test(
    "begin with each sale of a placeholder device: guests are no one customer, and nothing is kept " + "of them",
    async () => {
      const guests = [bought("o1", 0, "g", null, ["weak_did"]), bought("o2", 40, "g", null, ["weak_did"])];
      expect(await paid(...guests)).toEqual([10_00n, 10_00n]);
      expect(await paid(bought("o1", 0, "g", "email:ana", ["weak_did"]), bought("o2", 40, "d2", "email:ana"))).toEqual([
        10_00n,
        0n,
      ]);
      const { conversions } = settled(...guests);
      expect(conversions.map(({ data }) => [data.customer, data.device])).toEqual([
        ["", null],
        ["", null],
      ]);
      expect(earned.keysOf(conversions[0]!).filter((key) => key.includes("customer:"))).toEqual([]);
    },
  );

  test.each([
    ["its device", "7:21|customer:*:purchase:d1", {}],
    ["its device, as a customer of an app", "7:21|customer:*:ext_purchase:d1", { event_type: "ext_purchase" }],
  ])("go on from what was once counted for %s", (_, key, over) => {
    const before = Buffer.from(JSON.stringify({ format: 1, is: "customer", since: noon - 40 * dayMs }));
    const event = change({ customer: "email:ana", device: "d1", ...over });
    const { state: met } = metBy(earned, event, new Map([[key, before]]));
    expect(commission(event, met, terms({ contract: monthly }))).toMatchObject({
      events: [{ data: { kind: "none", reason: "months_over" } }],
    });
  });
});

describe("a month with sales under review", () => {
  const tiers = [
    { from: 0, rate: 5 },
    { from: 1_000, rate: 10 },
  ];
  const marginal = written({ type: "tiered", tiers });
  const retroactive = written({ type: "tiered", tiers, tier_mode: "retroactive" });
  /** One contract for all of them, or the n-th for the n-th conversion. */
  const balances = (by: Contract | readonly Contract[], happenings: readonly Happening[]) => {
    const all = [by].flat();
    const entries = committed(history(happenings), ({ data }) =>
      terms({ contract: all[Number(data.conversion_id.slice(4)) % all.length] }),
    );
    const lines = entries.flatMap((each) => each.lines);
    const on = (name: string): bigint =>
      lines.reduce((sum, { account, amount_minor }) => (account === name ? sum - amount_minor : sum), 0n);
    return { payable: on("payable:partner"), held: on("held:partner") };
  };
  const clear = (minor: bigint): Happening => ({ sale: minor });
  const reviewed = (minor: bigint): Happening => ({ sale: minor, over: { review: "fraud_review" } });
  const refundOf = (n: number): Happening => ({ refundOf: n, minor: 10n ** 18n });

  test("a tier that sales under review lose is taken from what is held, never from what is payable", () => {
    const month = [clear(1_000_00n), reviewed(1_000_00n)];
    expect(balances(marginal, month)).toEqual({ payable: 50_00n, held: 100_00n });
    expect(balances(marginal, [...month, refundOf(0)])).toEqual({ payable: 0n, held: 50_00n });
    expect(balances(marginal, [...month, refundOf(0), refundOf(1)])).toEqual({ payable: 0n, held: 0n });
  });

  test("what a sale earns only because of one under review is held until that is released", () => {
    const month = [reviewed(1_000_00n), clear(1_000_00n)];
    expect(balances(marginal, month)).toEqual({ payable: 50_00n, held: 100_00n });
    expect(balances(marginal, [...month, refundOf(0)])).toEqual({ payable: 50_00n, held: 0n });
    expect(balances(marginal, [...month, { releaseOf: 0 }])).toEqual({ payable: 150_00n, held: 0n });
  });

  test("holds no tier that the month has without it", () => {
    const month = [clear(600_00n), reviewed(600_00n), clear(600_00n)];
    expect(balances(retroactive, month)).toEqual({ payable: 120_00n, held: 60_00n });
    expect(balances(retroactive, [...month, refundOf(1)])).toEqual({ payable: 120_00n, held: 0n });
  });

  describe("that was sold by two tables which share a cap", () => {
    const cap = { period: "month", amount: 40 };
    const ofRate = (rate: number, contract_id: number) => ({
      ...written({ type: "tiered", tiers: [{ from: 0, rate }], cap }),
      contract_id,
      effective_from: noon - (9 - contract_id) * dayMs,
    });
    const both = [ofRate(10, 1), ofRate(20, 2)];

    test("pays what its clear sales earn, though one under review by the other table filled the cap before", () => {
      const month = [reviewed(400_00n), clear(100_00n)];
      expect(balances(both, month)).toEqual({ payable: 20_00n, held: 20_00n });
      expect(balances(both, [...month, refundOf(0)])).toEqual({ payable: 20_00n, held: 0n });
      expect(balances(both, [...month, { releaseOf: 0 }])).toEqual({ payable: 40_00n, held: 0n });
    });

    test("keeps what is payable when the room of a refund goes to the sale under review", () => {
      const month = [clear(300_00n), reviewed(200_00n), { refundOf: 0, minor: 150_00n }];
      expect(balances(both, month.slice(0, 2))).toEqual({ payable: 30_00n, held: 10_00n });
      expect(balances(both, month)).toEqual({ payable: 15_00n, held: 25_00n });
    });

    test("earns the same whichever of its sales came first, caps of different heights included", () => {
      const higher = { ...both[1]!, cap: { period: "month" as const, amount_minor: 100_00n } };
      const [first, second] = [clear(500_00n), clear(200_00n)];
      expect(balances([both[0]!, higher], [first, second])).toEqual({ payable: 80_00n, held: 0n });
      expect(balances([higher, both[0]!], [second, first])).toEqual({ payable: 80_00n, held: 0n });
    });
  });
});

describe("a minimum", () => {
  test.each([
    ["hybrid", { type: "hybrid", amount: "0.50", rate: 2, min: 2 }, 50n],
    ["hybrid without a fixed part", { type: "hybrid", amount: 0, rate: 2, min: 2 }, 0n],
    ["percent", { type: "percent", rate: 10, min: 2 }, 0n],
    ["recurring, by an amount", { type: "recurring", amount: 1, min: 2 }, 1_00n],
  ])("never lifts a sale of 0: %s", (_, one, amount) => {
    const [entry] = committed([change({ line_value_minor: 0n, value_minor: 0n })], () =>
      terms({ contract: written(one) }),
    );
    expect(entry?.amount_minor).toBe(amount);
  });
});

test("every rule in docs/design/money.md names a test that there is", () => {
  const root = new URL("../../", import.meta.url);
  const page = readFileSync(new URL("docs/design/money.md", root), "utf8");
  const named = [...page.matchAll(/`(tests\/\S+\.ts)`: "([^"]+)"/g)];
  expect(named.length).toBeGreaterThan(5);
  for (const [, file = "", name] of named) expect(readFileSync(new URL(file, root), "utf8")).toContain(name);
});

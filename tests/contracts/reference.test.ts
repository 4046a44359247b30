// Reference data on a real Postgres: a change is whole, in force everywhere at one moment, and
// never visible with a moment in the past.
import { createServer, type Socket, connect as tcp } from "node:net";
import fc from "fast-check";
import type pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { startOfDay } from "../../domain/calendar.ts";
import { type Reference, reference } from "../../domain/reference/reference.ts";
import { openPool, sql, transaction } from "../../infra/postgres/sql.ts";
import { keyringOf } from "../../infra/runtime/keyring.ts";
import { openTokens } from "../../modules/access/tokens/live-tokens.ts";
import { runWork } from "../../modules/base/work.ts";
import { actsFrom, changeReference } from "../../modules/catalog/reference/change.ts";
import { entities, type ReferenceChanges } from "../../modules/catalog/reference/entities.ts";
import { recordChange, tookTooLong } from "../../modules/catalog/reference/open-change.ts";
import { ReferenceRefused } from "../../modules/catalog/reference/problem.ts";
import { type OpenReference, openReference, readOf } from "../../modules/catalog/reference/reference.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { seed } from "../../modules/running/installation/seed.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";

let database: FreshDatabase;
let pool: pg.Pool;
let opened: OpenReference[] = [];
beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 8 });
});
afterEach(async () => {
  await Promise.all(opened.map((one) => one.close()));
  opened = [];
});
afterAll(() => database.drop());

const open = (from: pg.Pool = pool, pollMs = 100): OpenReference => {
  const one = openReference(from, { pollMs });
  opened.push(one);
  return one;
};
const databaseNow = async (): Promise<number> =>
  (await pool.query<{ now: number }>("select clock_timestamp() as now")).rows[0]!.now;
const until = async (what: string, isSo: () => boolean | Promise<boolean>, withinMs = 20_000): Promise<void> => {
  for (const deadline = Date.now() + withinMs; !(await isSo()); await new Promise((resolve) => setTimeout(resolve, 10)))
    if (Date.now() > deadline) throw new Error(`${what} did not come within ${withinMs} ms`);
};
const forever = Number.MAX_SAFE_INTEGER;

let shops = 0;
const purchases = { client_id: -1, partner_id: -1, event_type: "purchase", effective_from: "2024-01-01" } as const;
const flatOf = (amount: string) => ({ ...purchases, type: "flat" as const, amount });
/** Makes a contract of the default test case a tiered one. */
const tiered = (tiers: readonly object[], over: object = {}) => ({ type: "tiered", rate: null, tiers, ...over });
/** A client with a partner, a campaign, a link and a contract of 10 %. */
const shop = (over: Partial<ReferenceChanges> = {}): ReferenceChanges => {
  shops += 1;
  return {
    clients: [{ client_id: -1, slug: `shop-${shops}`, name: `Shop ${shops}` }],
    partners: [{ partner_id: -1, name: "Partner", email: "partner@shop.example", client_ids: [-1] }],
    campaigns: [
      { campaign_id: -1, client_id: -1, name: "Campaign", status: "active", destination_url: "https://shop.example/" },
    ],
    links: [{ link_id: -1, campaign_id: -1, partner_id: -1, code: `shop-${shops}` }],
    contracts: [
      {
        client_id: -1,
        partner_id: -1,
        event_type: "purchase",
        type: "percent",
        rate: "10",
        effective_from: "2024-01-01",
      },
    ],
    ...over,
  };
};
const refusal = async (changes: unknown): Promise<readonly string[]> => {
  const error = await writeReference(pool, "test", changes as ReferenceChanges).then(
    () => undefined,
    (thrown) => thrown,
  );
  expect(error).toBeInstanceOf(ReferenceRefused);
  return (error as ReferenceRefused).problems.map(({ field, message }) => `${field}: ${message}`);
};

test("a hold without effect that was saved before it was refused is left out of the next change", () =>
  expect(entities.clients.toRecord({ hold_days: { purchase: 9, ext_purchase: 3, trial: 2 } }).hold_days).toEqual({
    purchase: 9,
    trial: 2,
  }));

describe("a saved change", () => {
  test("has all defaults of the contract, and ids in the place of the negative ones", async () => {
    const saved = await writeReference(pool, "test", shop());
    const clientId = saved.idOf("clients", -1);
    const one = open();
    await one.ready;
    const at = one.reference()!.at(Date.now(), saved.recorded_at);
    expect(at.client(clientId)).toMatchObject({
      status: "active",
      currency: "MXN",
      click_window_days: 30,
      install_window_days: 7,
      identity_link: false,
      hold_days: { purchase: 30, lead_submit: 0 },
      late_hours: 72,
      fraud_review: 40,
      fraud_reject: 70,
      consent_default: 255,
      segments: ["MX", "VD", "DA", "HA", "IT", "NW"],
    });
    const sale = { client_id: clientId, partner_id: saved.idOf("partners", -1), segment: "MX", event_type: "purchase" };
    expect(at.contract(sale)).toMatchObject({
      contract_id: saved.contractIds[0],
      version: 1,
      rate_ppm: 100_000n,
      amount_minor: null,
    });
    expect(at.contract(sale)?.effective_from).toBe(startOfDay("2024-01-01"));
    expect(at.link(saved.idOf("links", -1))).toMatchObject({
      client_id: clientId,
      campaign_id: saved.idOf("campaigns", -1),
    });
    expect(one.reference()!.clientIdOf(`shop-${shops}`)).toBe(clientId);
  });

  test(
    "of a client says where its visitors are and what it makes of the fraud rules, and keeps what it " +
      "does not name",
    async () => {
      const saved = await writeReference(pool, "test", shop());
      const id = saved.idOf("clients", -1);
      const rules = { ua_bot: { active: false }, click_to_purchase: { threshold: 5_000, weight: 50 } };
      await writeReference(pool, "test", { clients: [{ client_id: id, jurisdiction: "EU", fraud: { rules } }] });
      const later = await writeReference(pool, "test", { clients: [{ client_id: id, fraud: { review: 30 } }] });
      const known = (await open().read(reference, later.recorded_at)).at(Date.now(), later.recorded_at);
      expect(known.client(id)).toMatchObject({
        jurisdiction: "EU",
        fraud_rules: rules,
        fraud_review: 30,
        fraud_reject: 70,
      });
      expect(known.partner(saved.idOf("partners", -1))?.email_sha256).toMatch(/^[0-9a-f]{64}$/);
    },
  );

  test("of a client has the exclusions of its fraud rules, each with its author and reason", async () => {
    const saved = await writeReference(pool, "test", shop());
    const id = saved.idOf("clients", -1);
    const entry = {
      kind: "network",
      value: "203.0.113.0/24",
      author: "ana@acme.example",
      reason: "our office",
    } as const;
    const exclude = (exclusions: readonly object[]) =>
      writeReference(pool, "test", { clients: [{ client_id: id, fraud: { exclusions } }] } as never);
    const later = await exclude([entry]);
    const known = (await open().read(reference, later.recorded_at)).at(Date.now(), later.recorded_at);
    expect(known.client(id)?.fraud_exclusions).toEqual([entry]);
    for (const wrong of [
      { ...entry, value: "0.0.0.0/0" },
      { ...entry, value: "2001:db8::/16" },
      { ...entry, value: "office" },
      { ...entry, kind: "device" },
      { ...entry, reason: "" },
      { ...entry, author: undefined },
    ])
      await expect(exclude([wrong]), JSON.stringify(wrong)).rejects.toThrow();
    await expect(exclude(Array.from({ length: 101 }, () => entry))).rejects.toThrow("at most 100");
  });

  test("of a fraud rule that there is none of, or that makes no sense, is refused with its place", async () => {
    const saved = await writeReference(pool, "test", shop());
    const refused = async (rules: object): Promise<string> => {
      const change = { clients: [{ client_id: saved.idOf("clients", -1), fraud: { rules } }] };
      return (await writeReference(pool, "test", change as never).then(
        () => "saved",
        (error: ReferenceRefused) => error.message,
      )) as string;
    };
    expect(await refused({ no_such_rule: {} })).toContain("clients[0].fraud.rules");
    expect(await refused({ ua_bot: { weight: 101 } })).toContain("clients[0].fraud.rules.ua_bot.weight");
    expect(await refused({ ua_bot: { threshold: 5 } })).toContain("this rule compares with nothing");
  });

  test("takes effect two seconds after its last statement, and counts from that millisecond", async () => {
    const before = await databaseNow();
    const saved = await writeReference(pool, "test", shop());
    expect(saved.recorded_at).toBeGreaterThanOrEqual(before + 2_000);
    expect(saved.recorded_at).toBeLessThanOrEqual((await databaseNow()) + 2_000);
    const at = await open().read(reference, saved.recorded_at);
    const known = (knownAt: number) => at.at(Date.now(), knownAt).client(saved.idOf("clients", -1)) !== undefined;
    expect([known(saved.recorded_at - 1), known(saved.recorded_at)]).toEqual([false, true]);
  });

  test("keeps what it does not name, and leaves events of before as they were", async () => {
    const saved = await writeReference(pool, "test", shop());
    const campaignId = saved.idOf("campaigns", -1);
    const clientId = saved.idOf("clients", -1);
    const changed = await writeReference(pool, "test", {
      campaigns: [{ campaign_id: campaignId, status: "paused" }],
      clients: [{ client_id: clientId, attribution: { click_window_days: 60 } }],
    });
    const at = await open().read(reference, changed.recorded_at);
    const now = changed.recorded_at;
    expect(at.at(now, now).campaign(campaignId)).toMatchObject({ name: "Campaign", status: "paused" });
    expect(at.at(now - 60_000, now).campaign(campaignId)?.status).toBe("active");
    expect(at.at(now, now - 1).campaign(campaignId)?.status).toBe("active");
    expect(at.at(now, now).client(clientId)).toMatchObject({
      click_window_days: 60,
      install_window_days: 7,
      name: `Shop ${shops}`,
    });
  });

  test("of segments shows in the client at the same moment", async () => {
    const saved = await writeReference(pool, "test", shop({ segments: [{ client_id: -1, code: "ONE", name: "One" }] }));
    const clientId = saved.idOf("clients", -1);
    const changed = await writeReference(pool, "test", {
      segments: [
        { client_id: clientId, code: "ONE", active: false },
        { client_id: clientId, code: "TWO", name: "Two" },
      ],
    });
    const at = await open().read(reference, changed.recorded_at);
    expect(at.at(changed.recorded_at, changed.recorded_at - 1).client(clientId)?.segments).toEqual(["ONE"]);
    expect(at.at(changed.recorded_at, changed.recorded_at).client(clientId)?.segments).toEqual(["TWO"]);
  });

  test("of a contract by its key is the next version of that contract", async () => {
    const saved = await writeReference(pool, "test", shop());
    const key = {
      client_id: saved.idOf("clients", -1),
      partner_id: saved.idOf("partners", -1),
      event_type: "purchase",
      effective_from: "2024-01-01",
    };
    const again = await writeReference(pool, "test", { contracts: [{ ...key, type: "percent", rate: 12.5 }] });
    expect(again.contractIds).toEqual(saved.contractIds);
    const at = await open().read(reference, again.recorded_at);
    const contract = (knownAt: number) => at.at(Date.now(), knownAt).contract({ ...key, segment: null });
    expect(contract(again.recorded_at)).toMatchObject({ version: 2, rate_ppm: 125_000n });
    expect(contract(again.recorded_at - 1)).toMatchObject({ version: 1, rate_ppm: 100_000n });
  });

  test("of a contract holds what people wrote in minor units, and gives it back to the next version", async () => {
    const saved = await writeReference(
      pool,
      "test",
      shop({
        contracts: [
          {
            ...purchases,
            type: "tiered",
            tiers: [
              { from: 0, rate: "2.5" },
              { from: "1000.50", rate: 4 },
            ],
            tier_mode: "retroactive",
            cap: { period: "month", amount: "99.90" },
          },
          {
            ...purchases,
            event_type: "install",
            type: "tiered",
            tiers: [
              { from: 0, amount: 5 },
              { from: 10, amount: "7.25" },
            ],
          },
          { ...purchases, event_type: "lead_submit", type: "recurring", amount: "12", months: 6 },
          { ...purchases, event_type: "renewal", type: "hybrid", amount: 1, rate: 0.5, min: "2", max: "3.50" },
        ],
      }),
    );
    const again = await writeReference(pool, "test", {
      contracts: saved.contractIds.map((contract_id) => ({ contract_id, effective_to: "2030-01-01" })),
    });
    const at = await open().read(reference, again.recorded_at);
    const parties = { client_id: saved.idOf("clients", -1), partner_id: saved.idOf("partners", -1), segment: null };
    for (const knownAt of [saved.recorded_at, again.recorded_at]) {
      const contract = (event_type: string) => at.at(Date.now(), knownAt).contract({ ...parties, event_type });
      expect(contract("purchase")).toMatchObject({
        type: "tiered",
        version: knownAt === saved.recorded_at ? 1 : 2,
        currency: "MXN",
        rate_ppm: null,
        tiers: [
          { from: 0n, rate_ppm: 25_000n, amount_minor: null },
          { from: 1_000_50n, rate_ppm: 40_000n, amount_minor: null },
        ],
        tier_mode: "retroactive",
        cap: { period: "month", amount_minor: 99_90n },
      });
      expect(contract("install")?.tiers).toEqual([
        { from: 0n, rate_ppm: null, amount_minor: 5_00n },
        { from: 10n, rate_ppm: null, amount_minor: 7_25n },
      ]);
      expect(contract("lead_submit")).toMatchObject({
        amount_minor: 12_00n,
        rate_ppm: null,
        months: 6,
        tiers: [],
        cap: null,
      });
      expect(contract("renewal")).toMatchObject({
        amount_minor: 1_00n,
        rate_ppm: 5_000n,
        min_minor: 2_00n,
        max_minor: 3_50n,
      });
    }
  });

  test("may end a contract and begin its successor at once", async () => {
    const saved = await writeReference(pool, "test", shop());
    const parties = {
      client_id: saved.idOf("clients", -1),
      partner_id: saved.idOf("partners", -1),
      event_type: "purchase",
    };
    const changed = await writeReference(pool, "test", {
      contracts: [
        { contract_id: saved.contractIds[0]!, effective_to: "2025-07-01" },
        { ...parties, type: "percent", rate: 8, effective_from: "2025-07-01" },
      ],
    });
    const at = await open().read(reference, changed.recorded_at);
    const rate = (validAt: number) =>
      at.at(validAt, changed.recorded_at).contract({ ...parties, segment: null })?.rate_ppm;
    expect([rate(startOfDay("2025-07-01") - 1), rate(startOfDay("2025-07-01"))]).toEqual([100_000n, 80_000n]);
  });

  test("may begin a contract beside one without an end, and the newest effective_from in force wins", async () => {
    const saved = await writeReference(pool, "test", shop());
    const parties = {
      client_id: saved.idOf("clients", -1),
      partner_id: saved.idOf("partners", -1),
      event_type: "purchase",
    };
    const changed = await writeReference(pool, "test", {
      contracts: [
        { ...parties, type: "percent", rate: 12, effective_from: "2025-07-01" },
        { ...parties, type: "percent", rate: 15, effective_from: "2025-11-01", effective_to: "2025-12-01" },
        { ...parties, type: "percent", rate: 8, effective_from: "2023-01-01" },
      ],
    });
    const at = await open().read(reference, changed.recorded_at);
    const rate = (day: string) =>
      at.at(startOfDay(day), changed.recorded_at).contract({ ...parties, segment: null })?.rate_ppm;
    const days = ["2023-12-31", "2025-06-30", "2025-07-01", "2025-11-30", "2025-12-01"];
    expect(days.map(rate)).toEqual([80_000n, 100_000n, 120_000n, 150_000n, 120_000n]);
  });

  test("the last day of a campaign belongs to it", async () => {
    const saved = await writeReference(
      pool,
      "test",
      shop({
        campaigns: [
          {
            campaign_id: -1,
            client_id: -1,
            name: "May",
            destination_url: "https://shop.example/",
            starts_on: "2022-05-01",
            ends_on: "2022-05-31",
          },
        ],
      }),
    );
    const at = await open().read(reference, saved.recorded_at);
    expect(at.at(Date.now(), saved.recorded_at).campaign(saved.idOf("campaigns", -1))).toMatchObject({
      starts_at: Date.UTC(2022, 4, 1, 5),
      ends_at: Date.UTC(2022, 5, 1, 5),
    });
  });
});

describe("a change is refused", () => {
  test("whole: nothing of it is saved when one part is wrong", async () => {
    const bad = shop({ links: [{ link_id: -1, campaign_id: -1, partner_id: -1, code: "no" }] });
    expect(await refusal(bad)).toEqual(["links[0].code: 3 to 64 letters, digits, _ and -"]);
    const { rows } = await database.adminPool.query(sql`select 1 from clients where slug = ${`shop-${shops}`}`);
    expect(rows).toEqual([]);
  });

  test.each([
    [
      "a rate above 100 %",
      { rate: 100.0001 },
      "contracts[0].rate: a rate above 100 % would pay more than the sale: give at most 100",
    ],
    ["a negative rate", { rate: -1 }, "contracts[0].rate: give percent with up to 4 decimals, e.g. 12.5"],
    [
      "a rate of five decimals",
      { rate: "1.00001" },
      "contracts[0].rate: give percent with up to 4 decimals, e.g. 12.5",
    ],
    ["a tiny rate", { rate: 1e-9 }, "contracts[0].rate: give percent with up to 4 decimals, e.g. 12.5"],
    ["an unknown type", { type: "bonus" }, "contracts[0].type: give percent, flat, tiered, recurring or hybrid"],
    ["no rate", { rate: null }, "contracts[0].rate: a percent contract needs one: give percent, e.g. 12.5"],
    [
      "an amount that its type has not",
      { amount: 5 },
      "contracts[0].amount: a percent contract has none: leave it out, or make it flat or hybrid or recurring",
    ],
    [
      "a negative amount",
      { type: "flat", rate: null, amount: "-5" },
      "contracts[0].amount: an amount cannot be negative: give zero or more",
    ],
    [
      "an amount of nothing",
      { type: "flat", rate: null, amount: "0.00" },
      'contracts[0].amount: a sale would be paid nothing: give more than zero, e.g. "50.00", or archive the contract',
    ],
    [
      "an amount that is no number",
      { type: "flat", rate: null, amount: "1e21" },
      'contracts[0].amount: give a plain decimal amount, e.g. "50.00"',
    ],
    [
      "an amount above Decimal(18,4)",
      { type: "flat", rate: null, amount: "100000000000000" },
      "contracts[0].amount: an amount is too large: give at most 14 digits before the point",
    ],
    [
      "an amount above what is exact",
      { min: "10000000000000.01" },
      "contracts[0].min: is too large (MXN): give less digits",
    ],
    [
      "an amount of too many decimals",
      { max: "1.005" },
      "contracts[0].max: has more than the 2 decimals of its currency (MXN): give less digits",
    ],
    ["a maximum below its minimum", { min: 5, max: "4.99" }, "contracts[0].max: is below min: give at least as much"],
    [
      "a cap without its amount",
      { cap: { period: "day" } },
      'contracts[0].cap.amount: give a number or a text like "12.50"',
    ],
    [
      "a cap of nothing",
      { cap: { period: "day", amount: 0 } },
      "contracts[0].cap.amount: nothing could ever be paid: give more than zero, or archive the contract",
    ],
    ["a cap a week", { cap: { period: "week", amount: 5 } }, "contracts[0].cap.period: give day, month or lifetime"],
    [
      "months without being recurring",
      { months: 3 },
      "contracts[0].months: a percent contract has none: leave it out, or make it recurring",
    ],
    ["no months at all", { type: "recurring", months: 0 }, "contracts[0].months: at least 1 month"],
    [
      "both a rate and an amount for each month",
      { type: "recurring", amount: 5 },
      "contracts[0].rate: a recurring contract pays a rate or an amount: give one of the two",
    ],
    [
      "no tiers",
      { type: "tiered", rate: null },
      "contracts[0].tiers: a tiered contract needs them: give at least one, the first from 0",
    ],
    ["a first tier above 0", tiered([{ from: 1, rate: 5 }]), "contracts[0].tiers[0].from: the first tier begins at 0"],
    [
      "tiers that overlap",
      tiered([
        { from: 0, rate: 5 },
        { from: "100", rate: 6 },
        { from: "100.00", rate: 7 },
      ]),
      "contracts[0].tiers[2].from: overlaps the tier before it, which begins at 100: begin above that",
    ],
    [
      "a tier above 100 %",
      tiered([{ from: 0, rate: 100.5 }]),
      "contracts[0].tiers[0].rate: a rate above 100 % would pay more than the sale: give at most 100",
    ],
    [
      "a tier of a negative amount",
      tiered([{ from: 0, amount: -1 }]),
      "contracts[0].tiers[0].amount: an amount cannot be negative: give zero or more",
    ],
    [
      "tiers of two kinds",
      tiered([
        { from: 0, rate: 5 },
        { from: 10, amount: 5 },
      ]),
      "contracts[0].tiers[1]: all tiers pay a rate, or all pay an amount: make them alike",
    ],
    [
      "a tier from half a sale on",
      tiered([
        { from: 0, amount: 5 },
        { from: 1.5, amount: 6 },
      ]),
      "contracts[0].tiers[1].from: tiers that pay amounts count sales: give a whole number",
    ],
    [
      "tiers that end in nothing",
      tiered([
        { from: 0, rate: 5 },
        { from: 10, rate: 0 },
      ]),
      "contracts[0].tiers[1]: sales up here would earn nothing: leave the tier out, and limit what is paid with a cap",
    ],
    [
      "retroactive tiers that fall",
      tiered(
        [
          { from: 0, rate: 5 },
          { from: 10, rate: 4 },
        ],
        { tier_mode: "retroactive" },
      ),
      "contracts[0].tiers[1]: a retroactive tier that pays less than the one before would take money " +
        "back for selling more: pay at least as much",
    ],
    [
      "tiers with a cap a day",
      tiered([{ from: 0, rate: 5 }], { cap: { period: "day", amount: 5 } }),
      "contracts[0].cap.period: a tiered contract settles its month as a whole: cap the month or the lifetime",
    ],
    [
      "a day that is none",
      { effective_from: "2026-02-30" },
      "contracts[0].effective_from: give a day as YYYY-MM-DD; it is that day in America/Mexico_City",
    ],
    [
      "a day that the calendar of the pipeline refuses",
      { effective_from: "0001-01-01" },
      "contracts[0].effective_from: give a day of the years 1970 to 2999",
    ],
    [
      "an end after every calendar",
      { effective_to: "9999-12-31" },
      "contracts[0].effective_to: give a day of the years 1970 to 2999",
    ],
    [
      "an end before the beginning",
      { effective_to: "2023-12-31" },
      "contracts[0].effective_to: end after effective_from: it is the first day on which this is no longer in force",
    ],
    ["an unknown field", { rat: 1 }, "contracts[0]: there is no field rat"],
  ])("contract with %s", async (_, over, message) => {
    const contract = {
      client_id: -1,
      partner_id: -1,
      event_type: "purchase",
      type: "percent",
      rate: "10",
      effective_from: "2024-01-01",
      ...over,
    };
    expect(await refusal(shop({ contracts: [contract] as never }))).toEqual([message]);
  });

  test("contract whose every amount is at its limit is saved, and one currency has no decimals", async () => {
    const largest = "10000000000000.00";
    await writeReference(
      pool,
      "test",
      shop({ contracts: [{ ...flatOf(largest), cap: { period: "lifetime", amount: largest } }] }),
    );
    const inYen = { clients: [{ client_id: -1, slug: "in-yen", name: "Tokyo", currency: "JPY" }] };
    expect(await refusal(shop({ ...inYen, contracts: [flatOf("5.0")] }))).toEqual([
      "contracts[0].amount: has more than the 0 decimals of its currency (JPY): give less digits",
    ]);
  });

  test.each([
    ["click", "click earns nothing: give purchase, lead_submit, install or the name of a custom event"],
    ["form_submit", "form_submit earns nothing: give purchase, lead_submit, install or the name of a custom event"],
    ["refund", "refund earns nothing: give purchase, lead_submit, install or the name of a custom event"],
    ["custom", "custom earns nothing: give purchase, lead_submit, install or the name of a custom event"],
    ["ext_purchase", "ext_purchase has the contracts and the hold of purchase: give purchase"],
  ])("of a contract for %s, with the types that earn", async (event_type, message) => {
    const contract = { ...purchases, event_type, type: "percent", rate: 5 };
    expect(await refusal(shop({ contracts: [contract] as never }))).toEqual([`contracts[0].event_type: ${message}`]);
    await writeReference(pool, "test", shop({ contracts: [{ ...contract, status: "archived" }] as never }));
    const clients = [{ client_id: -1, slug: "holds-nothing", name: "Casa Verde", hold_days: { [event_type]: 5 } }];
    expect(await refusal(shop({ clients }))).toEqual([`clients[0].hold_days.${event_type}: ${message}`]);
  });

  test.each<
    [
      string,
      (ids: { client: number; partner: number; campaign: number; link: number; other: number }) => unknown,
      RegExp,
    ]
  >([
    [
      "an unknown client",
      () => ({ clients: [{ client_id: 999_999, name: "X" }] }),
      /^clients\[0\]\.client_id: nothing has the id 999999$/,
    ],
    [
      "an id of no kind",
      () => ({ clients: [{ client_id: "7", name: "X" }] }),
      /^clients\[0\]\.client_id: give an id, or a negative number for a new one$/,
    ],
    [
      "a new slug for an old client",
      ({ client }) => ({ clients: [{ client_id: client, slug: "other" }] }),
      /^clients\[0\]\.slug: cannot be changed once saved/,
    ],
    [
      "a taken slug",
      () => ({ clients: [{ client_id: -1, slug: "taken", name: "X" }] }),
      /^clients\[0\]\.slug: taken belongs to another of the clients: choose another$/,
    ],
    [
      "a taken link code",
      ({ campaign, partner }) => ({
        links: [{ link_id: -1, campaign_id: campaign, partner_id: partner, code: "taken" }],
      }),
      /^links\[0\]\.code: taken belongs to another of the links: choose another$/,
    ],
    [
      "a taken referral code",
      ({ client }) => ({
        partners: [
          { partner_id: -1, name: "X", email: "x@shop.example", client_ids: [client], referral_code: "taken" },
        ],
      }),
      /^partners\[0\]\.referral_code: taken belongs to another of the partners: choose another$/,
    ],
    [
      "a partner that does not work for the client",
      ({ client, other }) => ({
        contracts: [
          {
            client_id: client,
            partner_id: other,
            event_type: "install",
            type: "percent",
            rate: 1,
            effective_from: "2024-01-01",
          },
        ],
      }),
      /^contracts\[0\]\.partner_id: partner \d+ does not work for client \d+: add the client to its client_ids first$/,
    ],
    [
      "a segment that the client lacks",
      ({ client, partner }) => ({
        contracts: [
          {
            client_id: client,
            partner_id: partner,
            segment: "ZZ",
            event_type: "install",
            type: "percent",
            rate: 1,
            effective_from: "2024-01-01",
          },
        ],
      }),
      /^contracts\[0\]\.segment: client \d+ has no segment ZZ/,
    ],
    [
      "a condition with a fault deep inside",
      ({ client, partner }) => ({
        rules: [
          {
            rule_id: -1,
            client_id: client,
            name: "R",
            when: { all: [{ field: "t", op: "like", value: "x" }] },
            // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
            then: { partner_id: partner },
          },
        ],
      }),
      /^rules\[0\]\.when\.all\[0\]\.op: op is one of eq, ne/,
    ],
    [
      "a rule for another client's campaign",
      ({ client, partner }) => ({
        rules: [
          {
            rule_id: -1,
            client_id: client,
            name: "R",
            when: { field: "t", op: "eq", value: "x" },
            // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
            then: { partner_id: partner, campaign_id: 999_999 },
          },
        ],
      }),
      /^rules\[0\]\.then\.campaign_id: client \d+ has no campaign 999999$/,
    ],
    [
      "a text that Postgres cannot hold",
      ({ client }) => ({ clients: [{ client_id: client, name: "a\u0000b" }] }),
      /^clients\[0\]: a text holds U\+0000/,
    ],
    [
      "half of a surrogate pair",
      ({ client }) => ({ clients: [{ client_id: client, name: "a\ud800b" }] }),
      /^clients\[0\]: a text holds U\+0000 or half/,
    ],
    [
      "a destination that is no web address",
      ({ campaign }) => ({ campaigns: [{ campaign_id: campaign, destination_url: "javascript:alert(1)" }] }),
      /^campaigns\[0\]\.destination_url: give a full http or https URL/,
    ],
    [
      "the same thing twice",
      ({ client }) => ({
        clients: [
          { client_id: client, name: "X" },
          { client_id: client, name: "Y" },
        ],
      }),
      /^clients\[1\]\.client_id: \d+ is given twice/,
    ],
    [
      "an id beyond the range",
      () => ({ campaigns: [{ campaign_id: 2 ** 40 }] }),
      /^campaigns\[0\]\.campaign_id: give an id, or a negative number/,
    ],
    ["nothing where a record belongs", () => ({ links: [null] }), /^links\[0\]: give an object$/],
    [
      "one contract by its key twice",
      ({ client, partner }) => {
        const contract = {
          client_id: client,
          partner_id: partner,
          event_type: "purchase",
          type: "percent",
          effective_from: "2024-01-01",
        };
        return {
          contracts: [
            { ...contract, rate: 1 },
            { ...contract, rate: 2 },
          ],
        };
      },
      /^contracts\[1\]: contract \d+ is given twice: give it once$/,
    ],
    [
      "a contract that is not there yet twice",
      ({ client, partner }) => {
        const contract = {
          ...{ client_id: client, partner_id: partner, event_type: "install", type: "percent" },
          effective_from: "2031-01-01",
        };
        return {
          contracts: [
            { ...contract, rate: 1 },
            { ...contract, rate: 2 },
          ],
        };
      },
      /^contracts\[1\]: this contract is given twice: give it once$/,
    ],
    [
      "a negative id that nothing bears",
      ({ client }) => ({
        partners: [{ partner_id: -1, name: "X", email: "x@shop.example", client_ids: [client, -5] }],
      }),
      /^partners\[0\]: -5 is none of the clients of this change$/,
    ],
    [
      "__proto__ as a field",
      ({ client }) => ({ clients: [JSON.parse(`{"client_id": ${client}, "__proto__": {"plan": "x"}}`)] }),
      /^clients\[0\]: there is no field __proto__$/,
    ],
  ])("with %s", async (_, changes, message) => {
    const saved = await writeReference(pool, "test", shop());
    const ids = {
      client: saved.idOf("clients", -1),
      partner: saved.idOf("partners", -1),
      campaign: saved.idOf("campaigns", -1),
      link: saved.idOf("links", -1),
      other: (await writeReference(pool, "test", shop())).idOf("partners", -1),
    };
    await writeReference(pool, "test", {
      clients: [{ client_id: -1, slug: "taken", name: "Taken" }],
      partners: [{ partner_id: -1, name: "Taken", email: "t@shop.example", client_ids: [-1], referral_code: "taken" }],
      campaigns: [{ campaign_id: -1, client_id: -1, name: "Taken", destination_url: "https://shop.example/" }],
      links: [{ link_id: -1, campaign_id: -1, partner_id: -1, code: "taken" }],
    }).catch((error) => expect(error).toBeInstanceOf(ReferenceRefused));
    const problems = await refusal(changes(ids));
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(message);
  });
});

test("a referral code that differs by case alone is refused beside one of its client, and only there", async () => {
  const [one, other] = [await writeReference(pool, "test", shop()), await writeReference(pool, "test", shop())];
  const [client, partner] = [one.idOf("clients", -1), one.idOf("partners", -1)];
  await writeReference(pool, "test", { partners: [{ partner_id: partner, referral_code: "alike" }] });
  const partnerOf = (clientId: number, referral_code: string) => ({
    partners: [{ partner_id: -1, name: "X", email: "x@shop.example", client_ids: [clientId], referral_code }],
  });
  expect(await refusal(partnerOf(client, "Alike"))).toEqual([
    "partners[0].referral_code: Alike belongs to another of the partners, as alike: choose another",
  ]);
  await writeReference(pool, "test", partnerOf(other.idOf("clients", -1), "ALIKE"));
});

/** On a busy machine a change may take too long; then it is not saved, and is tried again. */
const inTime = async <T>(change: () => Promise<T>, tries = 10): Promise<T> => {
  try {
    return await change();
  } catch (error) {
    if (tries === 0 || !tookTooLong(error)) throw error;
    return inTime(change, tries - 1);
  }
};

describe("the order of changes", () => {
  test("a change that works longer than 2 s is refused and leaves nothing", async () => {
    const begun = performance.now();
    await expect(recordChange(pool, "slow", (tx) => tx.query("select pg_sleep(30)"))).rejects.toThrow(
      "the change took longer than 2000 ms until its stamp, or 500 ms after it, and was not saved",
    );
    expect(performance.now() - begun).toBeLessThan(15_000);
    const { rows } = await pool.query("select 1 from reference_changes where actor = 'slow'");
    expect(rows).toEqual([]);
  });
  test("a writer that stalls before its last statement is refused too, and the next one is let in", async () => {
    let hasBegun = false;
    let isEnded = false;
    const stalled = recordChange(pool, "stalled", () => {
      hasBegun = true;
      return until("the end of the stalled writer's wait", () => isEnded);
    });
    await until("the stalled writer to have its turn", () => hasBegun);
    const next = writeReference(pool, "test", shop());
    await next;
    isEnded = true;
    await expect(stalled).rejects.toThrow("and was not saved");
  });
  const operator = { role: "operator", request_id: "test", ip: null };
  test("what follows a change in its transaction has half a second, what belongs to it more", async () => {
    const followedBy = (seconds: number, beforeIt = 0) =>
      transaction(pool, null, (tx) =>
        runWork(
          { tx, scope: { clients: [], isAll: true }, act: { actor: "followed", ...operator }, idOf: String },
          async (work) => {
            await changeReference(work, shop());
            await tx.query(sql`select pg_sleep(${beforeIt})`);
          },
          async (_, work) => {
            await tx.query(sql`select pg_sleep(${seconds})`);
            return { recorded_at: actsFrom(work)! };
          },
        ),
      );
    await inTime(() => followedBy(0.1));
    await expect(followedBy(0.7)).rejects.toMatchObject({ code: "25P04" });
    const begun = await databaseNow();
    const { recorded_at } = await inTime(() => followedBy(0.1, 0.7));
    expect(recorded_at - begun).toBeGreaterThanOrEqual(2_700);
    const { rows } = await pool.query("select 1 from reference_changes where actor = 'followed'");
    expect(rows).toHaveLength(2);
  });
  test("a limit of Postgres that was taken off starts again", async () => {
    await transaction(pool, null, async (tx) => {
      await tx.query("set local transaction_timeout = '600ms'");
      await tx.query("select pg_sleep(0.4)");
      await tx.query("set local transaction_timeout = 0; set local transaction_timeout = '600ms'");
      await tx.query("select pg_sleep(0.4)");
    });
  });
  test("changes saved at once get moments in their order; a reader of one has seen all before it", async () => {
    // The writers wait for each other, longer than a caller of the product would.
    const writers = database.pool({ max: 8, timeoutMs: 60_000 });
    const watched = new Set<number>();
    let gaps = 0;
    let isDone = false;
    const watch = async (): Promise<void> => {
      while (!isDone) {
        const { rows } = await pool.query<{ change_id: number }>(
          "select change_id from reference_changes order by change_id",
        );
        const newest = Math.max(0, ...watched);
        for (const { change_id: id } of rows) {
          if (!watched.has(id) && id < newest) gaps += 1;
          watched.add(id);
        }
      }
    };
    const watching = watch();
    await Promise.all(Array.from({ length: 40 }, () => writeReference(writers, "race", shop())));
    isDone = true;
    await watching;
    expect(gaps).toBe(0);
    const { rows } = await pool.query<{ n: number }>(
      "select count(*)::int as n from (select recorded_at > lag(recorded_at) over (order by change_id) " +
        "as is_later from reference_changes) x where not is_later",
    );
    expect(rows).toEqual([{ n: 0 }]);
  });
});

describe("the picture", () => {
  test("is refreshed before it answers for an event that is newer than it", async () => {
    const one = open(pool, 60_000);
    await one.ready;
    const saved = await writeReference(pool, "test", shop());
    const clientId = saved.idOf("clients", -1);
    expect(one.reference()!.at(Date.now(), forever).client(clientId)).toBeUndefined();
    const at = await one.read(reference, saved.recorded_at);
    expect(at.at(Date.now(), saved.recorded_at).client(clientId)).toBeDefined();
    expect(at.asOf).toBeGreaterThanOrEqual(saved.recorded_at - 2_000);
  });
  test("is not asked for again while it is young enough", async () => {
    const one = open(pool, 60_000);
    await one.ready;
    const before = one.reference();
    expect(await one.read(reference, before!.asOf + 1_000)).toBe(before);
    expect(await one.read(reference, before!.asOf + 1_001)).not.toBe(before);
  });
  test("follows a saved change within a poll", async () => {
    const one = open();
    await one.ready;
    const saved = await writeReference(pool, "test", shop());
    await until(
      "the client",
      () => one.reference()!.at(Date.now(), forever).client(saved.idOf("clients", -1)) !== undefined,
      1_000,
    );
  });
  test("answers by the name of the view, and names what it has when asked for another", async () => {
    const read = readOf({ places: () => Promise.resolve("somewhere") });
    expect(await read({ view: "places" }, 0)).toBe("somewhere");
    await expect(read({ view: "toString" }, 0)).rejects.toThrow(
      "no view is named toString; this process serves places",
    );
  });

  test("goes on with what it knows while Postgres is away, says since when, and catches up", async () => {
    const gate = await openGate(new URL(database.adminUrl));
    const url = new URL(database.adminUrl);
    url.port = String(gate.port);
    url.username = "tributary_app";
    url.password = database.appPassword;
    const away = openPool(url.href, { timeoutMs: 1_000 });
    const one = openReference(away, { pollMs: 50 });
    try {
      await one.ready;
      expect(one.staleSince()).toBeUndefined();
      gate.shut();
      await until("the loss", () => one.staleSince() !== undefined);
      expect(gate.refused()).toBeGreaterThan(0);
      const asOf = one.reference()!.asOf;
      expect(one.staleSince()).toBe(asOf);
      const took: number[] = [];
      for (let read = 0; read < 3; read += 1) {
        const begun = performance.now();
        expect((await one.read(reference, Date.now() + 60_000)).asOf).toBe(asOf);
        took.push(performance.now() - begun);
      }
      expect(Math.min(...took), `ms: ${took.join()}`).toBeLessThan(200);
      const saved = await writeReference(pool, "test", shop());
      gate.open();
      await until("the return", () => one.staleSince() === undefined);
      expect(
        (await one.read(reference, saved.recorded_at)).at(Date.now(), forever).client(saved.idOf("clients", -1)),
      ).toBeDefined();
    } finally {
      await one.close();
      await away.end();
      await gate.close();
    }
  });
  test("that was never loaded refuses to answer, and loads once Postgres comes", async () => {
    const gate = await openGate(new URL(database.adminUrl));
    gate.shut();
    const url = new URL(database.adminUrl);
    url.port = String(gate.port);
    url.username = "tributary_app";
    url.password = database.appPassword;
    const away = openPool(url.href, { timeoutMs: 1_000 });
    const one = openReference(away, { pollMs: 50 });
    try {
      await expect(one.read(reference, Date.now())).rejects.toThrow();
      expect(one.reference()).toBeUndefined();
      gate.open();
      await one.ready;
      expect(one.reference()).toBeDefined();
    } finally {
      await one.close();
      await away.end();
      await gate.close();
    }
  });
});

describe("as known when received", () => {
  test("any history of changes answers every question as a table read at that moment would", async () => {
    const first = await writeReference(pool, "test", shop());
    const campaignId = first.idOf("campaigns", -1);
    const partners = { client_id: first.idOf("clients", -1), partner_id: first.idOf("partners", -1) };
    const one = open();
    const step = fc.record({
      status: fc.constantFrom("draft" as const, "active" as const, "paused" as const, "ended" as const),
      validFrom: fc.option(fc.integer({ min: Date.UTC(2025, 0, 1), max: Date.UTC(2026, 0, 1) }), { nil: undefined }),
      rate: fc.integer({ min: 0, max: 1_000_000 }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 1, maxLength: 4 }),
        fc.array(fc.integer({ min: Date.UTC(2024, 6, 1), max: Date.UTC(2027, 0, 1) })),
        async (steps, times) => {
          for (const { status, validFrom, rate } of steps)
            await writeReference(pool, "test", {
              campaigns: [
                {
                  campaign_id: campaignId,
                  status,
                  ...(validFrom !== undefined && { valid_from: new Date(validFrom).toISOString() }),
                },
              ],
              contracts: [
                {
                  ...partners,
                  event_type: "purchase",
                  type: "percent",
                  rate: `${Math.floor(rate / 10_000)}.${String(rate % 10_000).padStart(4, "0")}`,
                  effective_from: "2024-01-01",
                },
              ],
            });
          const { rows: moments } = await pool.query<{ recorded_at: number }>(
            "select recorded_at from reference_changes order by 1",
          );
          const newest = moments.at(-1)!.recorded_at;
          const picture: Reference = await one.read(reference, newest);
          for (const knownAt of moments.slice(-6).flatMap(({ recorded_at }) => [recorded_at - 1, recorded_at]))
            for (const validAt of [...times, newest]) {
              const { rows } = await database.adminPool.query<{ status: string }>(sql`
              select status from campaigns join reference_changes using (change_id)
              where campaign_id = ${campaignId} and recorded_at <= ${new Date(knownAt)}
                and valid_from <= ${new Date(validAt)}
              order by recorded_at desc limit 1`);
              const { rows: contracts } = await database.adminPool.query<{ ppm: bigint }>(sql`
              select (rate * 10000)::int8 as ppm from segment_commissions join reference_changes using (change_id)
              where partner_id = ${partners.partner_id} and recorded_at <= ${new Date(knownAt)}
              order by version desc limit 1`);
              const at = picture.at(validAt, knownAt);
              expect(at.campaign(campaignId)?.status).toBe(rows[0]?.status);
              expect(at.contract({ ...partners, segment: null, event_type: "purchase" })?.rate_ppm).toBe(
                contracts[0]?.ppm,
              );
            }
        },
      ),
      { numRuns: 15 },
    );
  });
});

describe("law M12", () => {
  test("days of Mexico City begin for Postgres when they begin for the processors", async () => {
    const days = Array.from({ length: 6_000 }, (_, n) => new Date(Date.UTC(2015, 0, 1 + n)).toISOString().slice(0, 10));
    const { rows } = await pool.query<{ day: string; starts: number }>(sql`
      select day::text, (day::timestamp at time zone 'America/Mexico_City') as starts
      from unnest(${days}::date[]) day`);
    expect(rows).toHaveLength(days.length);
    for (const { day, starts } of rows) expect([day, starts]).toEqual([day, startOfDay(day)]);
  });
});

describe("the seed", () => {
  const keyring = keyringOf("pL3vQ9xT7mK1wZ8rN4sB6yD2hJ5cF0gA");
  test(
    "makes three clients whose tokens, links, contracts and rules are in force, and changes nothing " +
      "when run again",
    async () => {
      const first = await seed({ pool, known: {}, keyring, trackingUrl: "https://go.example" });
      const count = async () => (await pool.query("select count(*)::int as n from reference_changes")).rows[0];
      const changes = await count();
      const second = await seed({ pool, known: first.secrets, keyring, trackingUrl: "https://go.example" });
      expect(second).toEqual(first);
      expect(await count()).toEqual(changes);
      const { demo } = first;
      expect(demo.clients.map(({ slug }) => slug)).toEqual(["aurora-music", "casa-verde", "viento-travel"]);
      const now = await databaseNow();
      const at = (await open().read(reference, now)).at(now, now);
      const [aurora] = demo.clients;
      const [rule] = at.rules(aurora!.id);
      expect(rule?.when).toEqual({ field: "props.product_id", op: "eq", value: "cd" });
      expect(at.partner(rule!.then.partner_id)?.name).toBe("Indie Radio Network");
      expect(
        at.contract({ client_id: aurora!.id, partner_id: rule!.then.partner_id, segment: null, event_type: "purchase" })
          ?.rate_ppm,
      ).toBe(100_000n);
      for (const { link_id, client_id, code, url } of demo.links) {
        expect(at.link(link_id)).toMatchObject({ client_id, code, status: "active" });
        expect(url).toBe(`https://go.example/c/${code}`);
      }
      for (const { id } of demo.clients) {
        const withContract = at
          .partnersOf(id)
          .filter(({ partner_id }) =>
            at.contract({ client_id: id, partner_id, segment: null, event_type: "purchase" }),
          );
        expect(withContract.length).toBeGreaterThanOrEqual(2);
      }
      const tokens = openTokens(pool, { pollMs: 100 });
      await tokens.ready;
      for (const { id, ingest_token } of demo.clients)
        expect(tokens.find(ingest_token)).toMatchObject({ kind: "ingest", client_id: id });
      expect(tokens.find(demo.admin_token)?.kind).toBe("admin");
      expect(tokens.find(demo.service_token)?.kind).toBe("service");
      await tokens.close();
      const texts = await transaction(pool, [aurora!.id], async (tx) =>
        JSON.stringify((await tx.query("select * from tokens")).rows),
      );
      expect(texts).not.toContain(aurora!.ingest_token);
    },
  );
});

/**
 * A TCP gate in front of Postgres that can be shut: open connections break and new ones are refused
 * and counted.
 */
const openGate = async (target: URL) => {
  const sockets = new Set<Socket>();
  let isShut = false;
  let refused = 0;
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    if (isShut) {
      refused += 1;
      socket.destroy();
      return;
    }
    const behind = tcp(Number(target.port), target.hostname);
    sockets.add(behind);
    behind.on("error", () => socket.destroy());
    behind.on("close", () => socket.destroy());
    socket.on("close", () => behind.destroy());
    socket.pipe(behind).pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as { port: number }).port,
    refused: () => refused,
    shut: () => {
      isShut = true;
      for (const socket of sockets) socket.destroy();
    },
    open: () => {
      isShut = false;
    },
    close: () => {
      for (const socket of sockets) socket.destroy();
      return new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
};

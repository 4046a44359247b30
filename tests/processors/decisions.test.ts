// The effect of a decision on an order (docs/design/money.md, "Decisions"): the credited partner,
// what is held, and what stays unchanged.
import { describe, expect, test } from "vitest";
import { decisionOnEvent } from "../../processors/settle/decision-claim.ts";
import { order } from "../../processors/settle/memory.ts";
import { emptyOrder, type OrderState } from "../../processors/settle/order.ts";
import { topics } from "../../topics.ts";
import { attributed, clickCredit, noon, partnerId, recorded, referenceWith } from "../support/builders.ts";
import {
  committed,
  decide,
  flag,
  netByPartner,
  pixelSale,
  refund,
  reprocess,
  type Settlement,
  sale,
  settled,
} from "../support/money-builders.ts";
import { bytesOf, stateFrom } from "../support/remembered.ts";

const rival = 22;
const kinds = ({ conversions }: Settlement) =>
  conversions.map(({ data }) => `${data.kind} ${data.value_minor} to ${data.partner_id}`);
const credits = ({ rows }: Settlement) =>
  rows.map(({ version, credit }) => `v${version} ${credit.partner_id ?? credit.reason}`);
const accounts = ({ conversions }: Settlement): Readonly<Record<string, bigint>> => {
  const sums: Record<string, bigint> = {};
  for (const { lines } of committed(conversions))
    for (const { account, amount_minor } of lines) sums[account] = (sums[account] ?? 0n) + amount_minor;
  return sums;
};

describe("a decision who is credited", () => {
  test("assigns an order without a credited partner, and its commission appears", () => {
    const told = settled(sale({ partner: null }), decide("assign", { partner_id: rival }));
    expect(kinds(told)).toEqual(["credited 10000 to 22"]);
    expect(credits(told)).toEqual(["v1 no_click", "v2 22"]);
    expect(netByPartner(told.conversions)).toEqual({ 22: 100_00n });
    expect(accounts(told)).toEqual({ "expense:client": 10_00n, "payable:partner": -10_00n });
  });

  test("stands on the row with its id and what it overruled, and on the record as what caused it", () => {
    const decision = decide("reattribute", { partner_id: rival });
    const { rows, conversions } = settled(sale(), decision);
    expect(rows.at(-1)!.credit).toMatchObject({
      status: "attributed",
      method: "decision",
      partner_id: rival,
      link_id: null,
    });
    expect(
      rows.at(-1)!.credit.candidates.map(({ method, reference, outcome }) => [method, reference, outcome]),
    ).toEqual([
      ["click", "click", "overruled"],
      ["decision", decision.id, "won"],
    ]);
    expect(conversions.slice(1).map(({ data }) => data.cause_event_id)).toEqual([decision.id, decision.id]);
  });

  test("reverses the old credit, then adds the new one", () => {
    const told = settled(sale(), decide("reattribute", { partner_id: rival }));
    expect(kinds(told)).toEqual(["credited 10000 to 21", "reversed 10000 to 21", "credited 10000 to 22"]);
    expect(netByPartner(told.conversions)).toEqual({ 21: 0n, 22: 100_00n });
  });

  test("for the partner who holds it already changes nothing", () => {
    const told = settled(sale(), decide("reattribute", { partner_id: partnerId }));
    expect(kinds(told)).toEqual(["credited 10000 to 21"]);
    expect(credits(told)).toEqual(["v1 21"]);
  });

  test("by assigning takes from no partner", () => {
    expect(kinds(settled(sale(), decide("assign", { partner_id: rival })))).toEqual(["credited 10000 to 21"]);
  });

  test("moves what refunds have left of the sale", () => {
    const told = settled(
      sale(),
      refund({ value_minor: 30_00n }),
      decide("reattribute", { partner_id: rival }),
      refund({ value_minor: 20_00n }),
    );
    expect(netByPartner(told.conversions)).toEqual({ 21: 0n, 22: 50_00n });
  });

  test("takes the credit back, and no copy gives it again", () => {
    const told = settled(sale(), decide("reject"), pixelSale({ partner: rival }));
    expect(kinds(told)).toEqual(["credited 10000 to 21", "reversed 10000 to 21"]);
    expect(told.rows[1]).toMatchObject({
      version: 2,
      credit: { status: "unattributed", reason: "fraud_rejected", partner_id: null },
    });
  });

  test("ends a dispute: another partner's copy holds the commission no more", () => {
    const told = settled(sale(), decide("reattribute", { partner_id: partnerId }), pixelSale({ partner: rival }));
    expect(told.conversions.map(({ data }) => data.review)).toEqual([null]);
  });

  test("is followed by another one", () => {
    const told = settled(
      sale(),
      decide("take_back"),
      decide("assign", { partner_id: rival }),
      decide("reattribute", { partner_id: 23 }),
    );
    expect(netByPartner(told.conversions)).toEqual({ 21: 0n, 22: 0n, 23: 100_00n });
    expect(credits(told)).toEqual(["v1 21", "v2 manual", "v3 22", "v4 23"]);
  });

  test("about one line leaves the others alone", () => {
    const told = settled(
      sale(),
      sale({ product_id: "sku2" }),
      decide("reattribute", { partner_id: rival, line: "sku2" }),
    );
    expect(netByPartner(told.conversions)).toEqual({ 21: 100_00n, 22: 100_00n });
  });

  test("waits for its sale as a refund does, and finds lines that come late", () => {
    const told = settled(
      decide("assign", { partner_id: rival }),
      sale({ partner: null }),
      sale({ partner: null, product_id: "sku2" }),
    );
    expect(kinds(told)).toEqual(["credited 10000 to 22", "credited 10000 to 22"]);
    expect(credits(told)).toEqual(["v1 no_click", "v2 22", "v1 no_click", "v2 22"]);
  });

  test("takes a sale from its partner before it comes: it never was theirs, and no record says so", () => {
    const given = settled(decide("reattribute", { partner_id: rival }), sale());
    expect(kinds(given)).toEqual(["credited 10000 to 22"]);
    expect(credits(given)).toEqual(["v1 21", "v2 22"]);
    const taken = settled(decide("take_back"), sale(), sale({ product_id: "sku2", band: "review" }));
    expect(kinds(taken)).toEqual([]);
    expect(credits(taken)).toEqual(["v1 21", "v2 manual", "v1 21", "v2 manual"]);
  });

  test("made twice under one id counts once", () => {
    const decision = decide("reattribute", { partner_id: rival });
    const { conversions } = settled(sale(), decision, decision);
    expect(conversions.slice(-2)).toEqual(conversions.slice(1, 3));
    expect(new Set(conversions.map(({ id }) => id)).size).toBe(3);
  });
});

describe("a held commission", () => {
  const held = () => sale({ band: "review" });

  test("is released: it moves from held to payable, balanced, and the partner gains nothing by it", () => {
    const told = settled(held(), decide("release"));
    const [earned, released] = committed(told.conversions);
    expect(earned!.lines).toContainEqual({ account: "held:partner", amount_minor: -10_00n });
    expect(released).toMatchObject({
      kind: "adjustment",
      amount_minor: 0n,
      held: false,
      reason: "agreed with the shop",
    });
    expect(released!.lines).toEqual([
      { account: "held:partner", amount_minor: 10_00n },
      { account: "payable:partner", amount_minor: -10_00n },
    ]);
    expect(JSON.parse(released!.inputs)).toMatchObject({
      earned_minor: "1000",
      reversed_before_minor: "0",
      released_minor: "1000",
    });
    expect(accounts(told)).toEqual({ "expense:client": 10_00n, "held:partner": 0n, "payable:partner": -10_00n });
  });

  test("is refunded from what is payable once it was released, and released without what was refunded before", () => {
    const half = { value_minor: 50_00n };
    expect(accounts(settled(held(), decide("release"), refund(half)))).toMatchObject({
      "held:partner": 0n,
      "payable:partner": -5_00n,
    });
    expect(accounts(settled(held(), refund(half), decide("release")))).toMatchObject({
      "held:partner": 0n,
      "payable:partner": -5_00n,
    });
  });

  test("that is not held is not released", () => {
    expect(kinds(settled(sale(), decide("release"), decide("release")))).toEqual(["credited 10000 to 21"]);
  });

  test("is taken back when the decision confirms fraud", () => {
    expect(accounts(settled(held(), decide("reject")))).toEqual({
      "expense:client": 0n,
      "held:partner": 0n,
    });
  });
});

describe("a finding of the nightly pass", () => {
  test("adds to the score, and from the client's line on holds the commission", () => {
    const told = settled(sale(), flag("click_flood", 40));
    expect(told.rows.at(-1)).toMatchObject({
      version: 2,
      fraud: { score: 40, band: "review" },
      credit: { partner_id: partnerId },
    });
    expect(accounts(told)).toMatchObject({ "payable:partner": 0n, "held:partner": -10_00n });
  });

  test("below the client's line is written down and moves no money", () => {
    const told = settled(sale(), flag("flat_distribution", 30));
    expect(told.rows.at(-1)).toMatchObject({ version: 2, fraud: { score: 30, band: "ok" } });
    expect(told.conversions).toHaveLength(1);
  });

  test("together with another one takes the credit back", () => {
    const told = settled(sale(), flag("click_flood", 40), flag("flat_distribution", 30));
    expect(told.rows.at(-1)).toMatchObject({
      version: 3,
      fraud: { score: 70, band: "reject" },
      credit: { reason: "fraud_rejected" },
    });
    expect(netByPartner(told.conversions)).toEqual({ 21: 0n });
  });

  test("counts each code once", () => {
    expect(settled(sale(), flag("click_flood", 40), flag("click_flood", 40)).rows).toHaveLength(2);
  });

  test("moves nothing that a person has decided", () => {
    const told = settled(sale(), decide("reattribute", { partner_id: partnerId }), flag("click_flood", 80));
    expect(told.rows.at(-1)).toMatchObject({
      version: 2,
      fraud: { band: "reject" },
      credit: { partner_id: partnerId },
    });
    expect(kinds(told)).toEqual(["credited 10000 to 21"]);
  });
});

describe("a decision about an event that is no claim", () => {
  const page = attributed(
    { t: "page_view", order_id: null, product_id: null, value_minor: null },
    { credit: clickCredit() },
  );
  const known = referenceWith().at(noon, noon);
  const about = (partner_id: number) => {
    const { decision } = decide("reattribute", { partner_id }).data;
    return recorded(topics.claims, decisionOnEvent(page, known, decision!));
  };

  test("is its next version, from the bytes inside the decision", () => {
    const told = settled(about(rival));
    expect(told.conversions).toEqual([]);
    expect(told.rows).toMatchObject([
      { event: page.event, version: 2, credit: { partner_id: rival, method: "decision" } },
    ]);
  });

  test("goes on from what was decided last, whatever version the decision was made on", () => {
    expect(credits(settled(about(rival), about(23), about(23)))).toEqual(["v2 22", "v3 23"]);
  });
});

describe("what today's rules make of a line", () => {
  test("moves it: the old credit is reversed, then the new one added, and the row says what they say", () => {
    const told = settled(sale(), reprocess(1, { partner: rival }));
    expect(kinds(told)).toEqual(["credited 10000 to 21", "reversed 10000 to 21", "credited 10000 to 22"]);
    expect(told.rows.at(-1)).toMatchObject({ version: 2, credit: { partner_id: rival, method: "click" } });
  });

  test("credits no partner, or one for the first time", () => {
    expect(netByPartner(settled(sale(), reprocess(1, { partner: null })).conversions)).toEqual({ 21: 0n });
    expect(netByPartner(settled(sale({ partner: null }), reprocess(1, { partner: rival })).conversions)).toEqual({
      22: 100_00n,
    });
  });

  test("says nothing once another claim has changed the line", () => {
    const told = settled(sale(), decide("reattribute", { partner_id: 23 }), reprocess(1, { partner: rival }));
    expect(credits(told)).toEqual(["v1 21", "v2 23"]);
    expect(credits(settled(sale(), reprocess(1, { partner: rival }), reprocess(1, { partner: 23 })))).toEqual([
      "v1 21",
      "v2 22",
    ]);
  });

  test("leaves what a person has decided, unless it overrides", () => {
    const decided = decide("assign", { partner_id: partnerId });
    expect(netByPartner(settled(sale(), decided, reprocess(1, { partner: rival })).conversions)).toEqual({
      21: 100_00n,
    });
    expect(
      netByPartner(settled(sale(), decided, reprocess(1, { partner: rival, overrides: true })).conversions),
    ).toEqual({
      21: 0n,
      22: 100_00n,
    });
  });

  test("holds the commission that is under review today, and only that", () => {
    expect(accounts(settled(sale(), reprocess(1, { partner: partnerId, review: "fraud_review" })))).toMatchObject({
      "held:partner": -10_00n,
      "payable:partner": 0n,
    });
    expect(accounts(settled(sale({ band: "review" }), reprocess(1, { partner: partnerId })))).toMatchObject({
      "held:partner": 0n,
      "payable:partner": -10_00n,
    });
  });

  test("is no person's decision: a later copy and a later finding meet the line as they would have", () => {
    const told = settled(sale(), reprocess(1, { partner: null }), pixelSale({ partner: rival }));
    expect(netByPartner(told.conversions)).toEqual({ 21: 0n, 22: 100_00n });
  });

  test("never waits for a line", () => {
    expect(credits(settled(reprocess(1, { partner: rival }), decide("recredit", { line: "sku1" }), sale()))).toEqual([
      "v1 21",
    ]);
  });
});

describe("a decision that recalculates nothing", () => {
  const quiet = (version: number, partner: number | null, over: { readonly review?: string } = {}) =>
    reprocess(version, { partner, recalculates: false, ...over });
  const earned = (told: Settlement) => accounts(told)["expense:client"] ?? 0n;

  test.each([
    ["only its review changes", quiet(1, partnerId, { review: "claimed_by_another_partner" })],
    ["another partner gets it", quiet(1, rival)],
    ["no partner gets it", quiet(1, null)],
  ])("leaves a line that earns as it is: %s", (_, decision) => {
    const told = settled(sale(), decision);
    expect([kinds(told), credits(told)]).toEqual([["credited 10000 to 21"], ["v1 21"]]);
    expect(earned(told)).toBe(10_00n);
  });

  test("credits an open line for nothing, and nothing that touches it later makes it earn", () => {
    const open = [sale({ partner: null, value_minor: 100_00n }), quiet(1, rival)];
    expect(netByPartner(settled(...open).conversions)).toEqual({ 22: 100_00n });
    const touches = [
      flag("click_flood", 50),
      pixelSale({ partner: 23 }),
      refund({ value_minor: 40_00n }),
      decide("release", { line: "sku1" }),
    ];
    for (const touch of touches) expect(earned(settled(...open, touch)), touch.data.kind).toBe(0n);
    expect(earned(settled(...open, ...touches))).toBe(0n);
    expect(earned(settled(...open, reprocess(2, { partner: rival, review: "fraud_review" })))).toBe(0n);
  });

  test("may move what earns nothing on, for nothing", () => {
    const told = settled(sale({ partner: null }), quiet(1, rival), quiet(2, 23));
    expect([netByPartner(told.conversions), earned(told)]).toEqual([{ 22: 0n, 23: 100_00n }, 0n]);
  });

  test("is ended by a recredit, a person, and a reprocess that gives the line to another partner", () => {
    const open = [sale({ partner: null }), quiet(1, rival)];
    for (const end of [
      decide("recredit", { line: "sku1" }),
      decide("reattribute", { partner_id: 23 }),
      reprocess(2, { partner: 23 }),
    ])
      expect(earned(settled(...open, end, flag("click_flood", 50)))).toBe(10_00n);
    const refunded = [refund({ value_minor: 40_00n }), flag("click_flood", 50)];
    expect(earned(settled(...open, ...refunded, decide("recredit", { line: "sku1" })))).toBe(6_00n);
  });
});

test("a line that is credited again keeps its partner and its row", () => {
  const told = settled(sale(), refund({ value_minor: 40_00n }), decide("recredit", { line: "sku1" }));
  expect(kinds(told)).toEqual([
    "credited 10000 to 21",
    "reversed 4000 to 21",
    "reversed 6000 to 21",
    "credited 10000 to 21",
    "reversed 4000 to 21",
  ]);
  // The second version has the amount that the refund took.
  expect(credits(told).filter((one) => one.endsWith("21"))).toEqual(["v1 21", "v2 21"]);
});

test("an order that was remembered before there were decisions is met without any", () => {
  const key = "7:o:o1";
  const line = { product_key: "sku1", status: "open", value_minor: "10000", refunded_minor: "0" };
  const bytes = Buffer.from(`${JSON.stringify({ format: 1, lines: [line], refunds: [] })}\n{}`);
  const state = stateFrom(order, [key], [bytes]);
  expect(state).toMatchObject({
    lines: [{ value_minor: 100_00n, is_decided: false, row: "{}" }],
    decisions: [],
    events: [],
  });
});

test("an order with decisions is remembered as it was", () => {
  const state: OrderState = {
    ...emptyOrder,
    decisions: [
      {
        ...{ product_key: null, name: null, event_id: null, is_taken: true },
        decision: decide("assign", { partner_id: 22 }).data.decision!,
      },
    ],
    events: [{ event_id: "e", row: "{}" }],
    claimed_by: [22],
  };
  const key = "7:o:o1";
  const [change] = bytesOf(order, [key], emptyOrder, state);
  expect(stateFrom(order, [key], [change!.value])).toEqual(state);
});

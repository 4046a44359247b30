// Chapter 5: credit. Which partner gets it, and why the others do not.
import { describe, expect, test } from "vitest";
import type { ReferenceRows } from "../../domain/reference/reference.ts";
import type { Credit, LedgerEntry } from "../../schemas/generated.ts";
import {
  campaign,
  crediting,
  dayMs,
  forged,
  hourMs,
  link,
  noon,
  partner,
  rule,
  secondMs,
} from "../support/builders.ts";
import { click, clickBefore, pageView, purchase, shop, type Written } from "../support/shop.ts";

// One event has one winner. Candidates are tried in a fixed order: the click id that the event
// carries, then the partner whom its source names, then the first matching rule. The first one
// without an objection is credited. All of them are recorded.

const outcomeOf = async (
  event: Written,
  rows: Partial<ReferenceRows> = {},
): Promise<{ credit: Credit; entries: readonly LedgerEntry[] }> => {
  const { post, stored, entries } = shop(rows);
  await post([event]);
  return { credit: stored()[0]!.credit, entries: entries() };
};
const creditOf = async (event: Written, rows?: Partial<ReferenceRows>): Promise<Credit> =>
  (await outcomeOf(event, rows)).credit;

const anHourAgo = clickBefore(hourMs);

describe("by click", () => {
  test("the click id names the link, and the link its partner and campaign", async () =>
    expect(await creditOf(purchase({ svc_click_id: anHourAgo }))).toMatchObject({
      status: "attributed",
      method: "click",
      reason: null,
      partner_id: 21,
      campaign_id: 31,
      link_id: 41,
      clicked_at: noon - hourMs,
    }));

  // No store is asked whether the click happened. The id proves it, even if every cache is lost or
  // the click event never came.
  test("a click whose own event never arrived counts like any other", async () => {
    const { post, stored } = shop();
    await post([pageView({ svc_click_id: anHourAgo })]);
    expect(stored()).toMatchObject([{ event: { t: "page_view" }, credit: { method: "click" } }]);
  });

  // The window is the client's, 30 days by default, and it is measured between two event times:
  // click and purchase. The times of arrival do not matter.
  test("a click counts up to the last millisecond of its window, and not one longer", async () => {
    expect(await creditOf(purchase({ svc_click_id: clickBefore(30 * dayMs) }))).toMatchObject({ status: "attributed" });
    expect(await creditOf(purchase({ svc_click_id: clickBefore(30 * dayMs + 1) }))).toMatchObject({
      status: "unattributed",
      reason: "click_expired",
      candidates: [{ partner_id: 21, outcome: "click_expired" }],
    });
  });
  test("a click after the purchase did not cause it", async () =>
    expect(await creditOf(purchase({ svc_click_id: clickBefore(-1) }))).toMatchObject({
      reason: "click_after_conversion",
    }));

  // A bad click id costs the credit, never the sale: the shop did sell something.
  test("a forged click id earns nothing, and the purchase is stored all the same", async () =>
    expect(await outcomeOf(purchase({ svc_click_id: forged(anHourAgo) }))).toMatchObject({
      credit: { status: "unattributed", reason: "bad_click_id", partner_id: null },
      entries: [],
    }));
  test("a good click on another client's link is no better than a forged one", async () =>
    expect(await creditOf(purchase({ svc_click_id: anHourAgo }), { links: [link({ client_id: 8 })] })).toMatchObject({
      reason: "bad_click_id",
    }));

  // Partner, campaign and link count as they were at event time (chapter 7).
  test("a paused campaign and a partner who left earn nothing, and each says so", async () => {
    const event = purchase({ svc_click_id: anHourAgo });
    expect(await creditOf(event, { campaigns: [campaign({ status: "paused" })] })).toMatchObject({
      reason: "campaign_inactive",
    });
    expect(await creditOf(event, { partners: [partner({ client_ids: [] })] })).toMatchObject({
      reason: "partner_inactive",
    });
  });
});

describe("by rule", () => {
  // A rule is data: a condition and the partner that it credits. A promo code is a rule.
  const coupon = rule({ when: { field: "coupon", op: "eq", value: "TEN" }, ...crediting(22) });
  const rows = { partners: [partner(), partner({ partner_id: 22 })], rules: [coupon] };

  test("a coupon credits the partner who gave it out", async () =>
    expect(await creditOf(purchase({}, { coupon: "TEN" }), rows)).toMatchObject({
      method: "rule",
      partner_id: 22,
      rule_id: 51,
      rule_version: 1,
    }));
  test("a click id goes before a coupon, and the coupon's partner sees that another one came first", async () =>
    expect(await creditOf(purchase({ svc_click_id: anHourAgo }, { coupon: "TEN" }), rows)).toMatchObject({
      method: "click",
      partner_id: 21,
      candidates: [
        { method: "click", partner_id: 21, outcome: "won" },
        { method: "rule", partner_id: 22, outcome: "lower_precedence" },
      ],
    }));
  test("when the click is too old the coupon takes its place, and the click shows why it lost", async () =>
    expect(await creditOf(purchase({ svc_click_id: clickBefore(31 * dayMs) }, { coupon: "TEN" }), rows)).toMatchObject({
      method: "rule",
      partner_id: 22,
      candidates: [
        { method: "click", partner_id: 21, outcome: "click_expired" },
        { method: "rule", partner_id: 22, outcome: "won" },
      ],
    }));
  // No partner is credited by guessing: a click that the purchase does not carry, or a rule that
  // nearly matches, does not count.
  test("nothing carried and nothing matched: no click", async () =>
    expect(await creditOf(purchase({}, { coupon: "ELEVEN" }), rows)).toMatchObject({
      reason: "no_click",
      candidates: [],
    }));
});

describe("by trust", () => {
  // score gives points for suspicious signs. A few points hold the money until a person has looked
  // at it; many take the credit away.
  const robot = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
  test("a purchase by a self-declared bot is credited, and its commission is held", async () =>
    expect(await outcomeOf(purchase({ svc_click_id: anHourAgo, ua: robot }))).toMatchObject({
      credit: { status: "attributed" },
      entries: [
        { held: true, reason: "fraud_review", lines: [{ account: "expense:client" }, { account: "held:partner" }] },
      ],
    }));
  test("a bot that buys a second after its click earns no credit, though its click id is good", async () =>
    expect(await outcomeOf(purchase({ svc_click_id: clickBefore(secondMs), ua: robot }))).toMatchObject({
      credit: { reason: "fraud_rejected", candidates: [{ partner_id: 21, outcome: "fraud_rejected" }] },
      entries: [],
    }));
});

// Not every credit earns. A conversion without a contract still has its entry, which moves no money
// and says why. So conversions and entries can always be compared one by one.
test("a credited sale without a contract has an entry of nothing", async () =>
  expect((await outcomeOf(purchase({ svc_click_id: anHourAgo }), { contracts: [] })).entries).toMatchObject([
    { kind: "none", amount_minor: 0n, reason: "no_contract", lines: [] },
  ]));

// Clicks are credited like everything else, so that a report can show which partner's visitors
// came, looked, and did not buy.
test("a click is credited to its own partner", async () =>
  expect(await creditOf(click(anHourAgo, { ts: noon - hourMs }))).toMatchObject({ method: "click", partner_id: 21 }));

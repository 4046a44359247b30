// An explanation in print: a refund credits no partner, and a decision is no receipt.
import { expect, test } from "vitest";
import { type ExplanationWithDecisions, printed } from "../../apps/cli/commands/money/explain-print.ts";

const SALE_AT = Date.parse("2026-11-23T05:01:17.242Z");
const DECIDED_AT = Date.parse("2026-11-23T05:04:12.063Z");

const version = (over: object) => ({
  ...{ event_id: "e1", sender_event_id: "sale-1", t: "purchase", custom_name: null, version: 1, source: "batch" },
  ...{ received_at: SALE_AT, ts: SALE_AT, order_id: "A-1", product_id: "pot", value_minor: 20_000n, currency: "MXN" },
  ...{ url: null, country: null, device: "unknown", is_bot: false, consent: 255, warnings: [], enrich_errors: [] },
  ...{ merged_into: null, credit_status: "unattributed", credit_method: null, credit_reason: "no_click" },
  ...{ partner_id: null, campaign_id: null, link_id: null, rule_id: null, rule_version: null, clicked_at: null },
  ...{ window_days: null, reference_as_of: null, fraud_score: 0, fraud_band: "ok", fraud_reasons: [], candidates: [] },
  ...over,
});
const line = {
  ...{ product_key: "pot", status: "credited", partner_id: 5, event_id: "e1", value_minor: 20_000n },
  ...{ refunded_minor: 0n, currency: "MXN", review: null, conversion_id: "cnv_1", copies: 0, received_at: SALE_AT },
};
const explained = (newest: object, over: object = {}): string =>
  printed({
    ...{ client: { client_id: 2, slug: "casa-verde", name: "Casa Verde" }, event_id: "e1", type: "purchase" },
    ...{ at: SALE_AT, versions: [newest], copies: [], conversions: [], entries: [], commissions: [], decisions: [] },
    ...{ taken_back: null, rules: [], contracts: [], partners: { 5: "Revista Hogar" }, campaigns: {} },
    order: { order_key: "o:A-1", lines: [line], waiting_refunds: 0, void_refunds: [] },
    ...over,
  } as unknown as ExplanationWithDecisions);

test("a sale was received when it came, also after a decision has written its event again", () => {
  const decided = version({ version: 2, received_at: DECIDED_AT, credit_status: "attributed", partner_id: 5 });
  for (const newest of [version({}), decided])
    expect(explained(newest)).toContain("received     2026-11-23T05:01:17.242Z (2026-11-22 23:01 in Mexico City)");
});

test("a refund gives back and takes back; it is never said to lack a click", () => {
  const refund = version({ t: "refund", event_id: "r1", sender_event_id: "refund-1", value_minor: null });
  const text = explained(refund, {
    event_id: "r1",
    type: "refund",
    taken_back: { entries: [], nothing: "no_partner" },
  });
  expect(text).toContain("gives back   order A-1, product pot, all that is left");
  expect(text).toContain("credited to  no partner: a refund takes back from those who were credited for its sale");
  expect(text).toContain("What it took back");
  for (const untrue of ["no_click", "Considered for", "unattributed"]) expect(text).not.toContain(untrue);
});

test("what is not known of a visitor says what it is", () =>
  expect(explained(version({}))).toContain("visitor      country unknown, device unknown, consent 0xff"));

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
  ...{ money_from: null, total_from: null, stands: false },
};
const explained = (newest: object, over: object = {}): string =>
  printed({
    ...{ client: { client_id: 2, slug: "casa-verde", name: "Casa Verde" }, event_id: "e1", type: "purchase" },
    ...{ at: SALE_AT, versions: [newest], copies: [], conversions: [], entries: [], commissions: [], decisions: [] },
    ...{
      letters: [],
      first_credit: null,
      taken_back: null,
      rules: [],
      contracts: [],
      partners: { 5: "Revista Hogar" },
      campaigns: {},
    },
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

test("the copy that amended an amount is named, with its own time", () => {
  const money_from = { event_id: "e7", at: DECIDED_AT };
  const order = { order_key: "o:A-1", lines: [{ ...line, money_from }], waiting_refunds: 0, void_refunds: [] };
  const text = explained(version({}), { order });
  expect(text).toContain("the amount of pot is that of copy e7, dated 2026-11-23T05:04:12");
});

test("a copy whose amount counts says so, and any other counts nowhere", () => {
  const copy = version({ event_id: "e7", merged_into: "e1", credit_reason: "duplicate_order" });
  const orderOf = (money_from: object | null) => ({
    event_id: "e7",
    order: { order_key: "o:A-1", lines: [{ ...line, money_from }], waiting_refunds: 0, void_refunds: [] },
  });
  const isOfSale = "merged       a second copy of e1: its amount is that of the sale";
  expect(explained(copy, orderOf({ event_id: "e7", at: DECIDED_AT }))).toContain(isOfSale);
  expect(explained(copy, orderOf(null))).toContain("merged       a second copy of e1: it counts nowhere");
});

test("a row of an undone file is withdrawn, and no second copy", () => {
  const text = explained(version({ version: 2, merged_into: "d1", credit_reason: "import_undone" }));
  expect(text).toContain("withdrawn    its import was undone: it counts nowhere");
  expect(text).toMatch(/2 {2}withdrawn +import_undone/);
  expect(text).not.toContain("second copy");
});

test("a total that was merged into its lines is named with the reason, and so is a person's word", () => {
  const orderOf = (over: object) => ({
    order: { order_key: "o:A-1", lines: [{ ...line, ...over }], waiting_refunds: 0, void_refunds: [] },
  });
  expect(explained(version({}), orderOf({ total_from: "e7" }))).toContain(
    "e7 reported its total and was merged into these lines: they come to its worth",
  );
  expect(explained(version({}), orderOf({ total_from: "e7", stands: true }))).toContain(
    "a person kept the lines of the two",
  );
  expect(explained(version({}), orderOf({ review: "disputed_total" }))).toContain("tributary decide release --keep");
});

test("a sale says whose time dates its money, and why not its own", () => {
  const dated = (one: object | null): string =>
    explained(version({}), {
      order: { order_key: "o:A-1", lines: [{ ...line, dated: one }], waiting_refunds: 0, void_refunds: [] },
    });
  const at = "money dated  2026-11-23T05:01:17.242Z (2026-11-22 23:01 in Mexico City) by the";
  expect(dated({ at: SALE_AT, by: "event", because: null })).toContain(`${at} event\n`);
  expect(dated({ at: SALE_AT, by: "receipt", because: "client_clock" })).toContain(
    `${at} receipt, client_clock: the clock of a page or an app counts for ten minutes\n`,
  );
  expect(dated(null)).not.toContain("money dated");
});

test("a sale whose months ended earlier says by which sale, and until when they are paid", () => {
  const inputs = {
    first_sale: "cnv_9",
    first_sale_event: "e9",
    customer_since: "2026-09-10",
    paid_until: "2026-10-10",
  };
  const moved = {
    ...{ entry_id: "led_2", kind: "adjustment", amount_minor: -1_000n, currency: "MXN", partner_id: 5 },
    ...{ contract_id: 61, contract_version: 1, commission_type: "recurring", reason: "first_sale_moved" },
    ...{ formula: "amount = reversed before - earned", inputs, lines: [] },
  };
  const text = explained(version({}), { entries: [moved] });
  expect(text).toContain("led_2 adjustment: -10.00 MXN for partner 5 Revista Hogar");
  for (const shown of ["first_sale_moved", `"first_sale_event":"e9"`, `"paid_until":"2026-10-10"`])
    expect(text).toContain(shown);
});

test("what lies in the dead letters is said before anything that it may have changed", () => {
  const letter = { letter_id: "dl_1", client_id: 2, event_id: "e1", state: "parked", stage: "ledger" };
  const text = explained(version({}), { letters: [{ ...letter, code: "refused_by_store", first_failed_at: SALE_AT }] });
  expect(text).toMatch(/Not all of it has come through[\s\S]*dl_1 +parked +ledger +refused_by_store[\s\S]*Considered/);
  expect(explained(version({}))).not.toContain("dead letters");
});

test("a conversion that was only closed gives nothing back, and says whether it was opened again", () => {
  const conversion = {
    ...{ conversion_id: "cnv_1", version: 2, status: "reversed", value_minor: 20_000n, currency: "MXN" },
    ...{ refunded_minor: 20_000n, partner_id: 5, campaign_id: null, method: "click", review: null },
  };
  const textOf = (over: object): string =>
    explained(version({}), { conversions: [{ ...conversion, is_opened_again: false, ...over }] });
  expect(textOf({ reason: "amended", is_opened_again: true })).toContain(
    "closed, and opened again: amended: a later copy amended its amount",
  );
  expect(textOf({ reason: "import_undone" })).toContain("closed: import_undone");
  expect(textOf({ reason: "amended", is_opened_again: true })).not.toContain("given back 200.00");
  expect(textOf({ reason: "item_returned" })).toContain("given back 200.00 MXN: item_returned");
  const partly = { reason: "item_returned", status: "credited", refunded_minor: 5_000n };
  expect(textOf(partly)).toContain("given back 50.00 MXN: item_returned");
});

test("a refund in another currency than its sale does not wait for it", () => {
  const order = { order_key: "o:A-1", lines: [line], waiting_refunds: 0, void_refunds: [] };
  const refund = version({ t: "refund", event_id: "r1", value_minor: 5_000n, currency: "USD" });
  const text = explained(refund, {
    event_id: "r1",
    taken_back: { entries: [], nothing: "other_currency" },
    order: { ...order, refunds_in_other_currency: 1 },
  });
  expect(text).toContain("nothing: it is in another currency than its sale (other_currency)");
  expect(text).toContain("1 refunds are in another currency than their sale, and take nothing");
  expect(text).not.toContain("wait for their sale");
});

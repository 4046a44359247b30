// Chapter 3: the pipeline. A click and a purchase become a credited conversion and a balanced entry
// in the ledger, in this process.
import { expect, test } from "vitest";
import { topics } from "../../topics.ts";
import { hourMs, noon } from "../support/builders.ts";
import { printed } from "../support/printed.ts";
import { click, clickBefore, pageView, purchase, shop } from "../support/shop.ts";

// topology.ts is the pipeline as a value: edges, stages and sinks, and the topics between them. A
// worker runs it on Kafka; here drive() runs the same value through the same runner on a log in
// memory. There is one client, one partner with one link, and a contract of 10 % of every purchase.

const clicked = clickBefore(hourMs);
/** A visitor follows the link at eleven, looks around, and buys for 100.00 at noon. */
const visit = [
  click(clicked, { ts: noon - hourMs }),
  pageView({ svc_click_id: clicked, ts: noon - hourMs / 2 }),
  purchase({ svc_click_id: clicked }),
];

// Three stages read every event of a device in order: enrich, score, attribute. An event about an
// order continues as a claim under the order's own key. settle decides what happens to the order,
// commission what is owed for it.

test("three events go in; what comes out of each stage", async () => {
  const { post, read } = shop();
  await post(visit);
  const counted = Object.values(topics).map((topic) => [topic.name, read<unknown>(topic as never).length] as const);
  expect(Object.fromEntries(counted.filter(([, count]) => count > 0))).toEqual({
    "events.raw": 3,
    "events.enriched": 3,
    "events.scored": 3,
    claims: 1,
    "events.attributed": 3,
    conversions: 1,
    "ledger.entries": 1,
  });
});

// Records are composed. An event after the chain is the received event plus one part from each
// stage.

test("the stored purchase holds what each stage found out", async () => {
  const { post, stored } = shop();
  await post(visit);
  expect(stored().find(({ event }) => event.t === "purchase")).toMatchObject({
    event: { order_id: "o1", value_minor: 100_00n },
    enrichment: { device: "unknown", is_bot: false, consent: 0xff },
    fraud: { score: 0, band: "ok", reasons: [] },
    credit: { status: "attributed", method: "click", partner_id: 21, campaign_id: 31, clicked_at: noon - hourMs },
    version: 1,
  });
});

// The conversion is what earns: one line of one order, credited to one partner.

test("the conversion names its sale, its partner and its worth", async () => {
  const { post, conversions, stored } = shop();
  await post(visit);
  const sale = stored().find(({ event }) => event.t === "purchase")!;
  expect(conversions()).toMatchObject([
    {
      kind: "credited",
      version: 1,
      partner_id: 21,
      order_id: "o1",
      product_id: "sku1",
      value_minor: 100_00n,
      event_id: sale.event.event_id,
    },
  ]);
});

// The entry is what is owed. It is never edited. Its lines sum to zero, so no money appears or
// disappears. It is also its own receipt: the formula and its inputs, the version of the contract,
// the month, and the first day of payment.

test("the entry, as an accountant reads it", async () => {
  const { post, entries } = shop();
  await post(visit);
  expect(printed(entries()[0]!)).toBe(`
    earned  2026-06  partner 21  10.00 MXN
      expense:client      10.00
      payable:partner    -10.00
    amount = line value x 10 %, rounded half to even to the minor unit
    contract 61 version 1, payable from 2026-07-15`);
});
test("the receipt can be checked with pencil and paper", async () => {
  const { post, entries } = shop();
  await post(visit);
  expect(JSON.parse(entries()[0]!.inputs)).toEqual({
    line_value_minor: "10000",
    rate_ppm: "100000",
    amount_minor: "1000",
    currency: "MXN",
    hold_days: 30,
  });
});

// A refund never changes the entry: it adds one with the opposite sign.

test("after a refund of everything the account stands where it began", async () => {
  const { post, entries } = shop();
  await post(visit);
  await post([{ ...purchase(), t: "refund", ts: noon + hourMs, props: { order_id: "o1", reason: "item_returned" } }], {
    receivedAt: noon + hourMs,
  });
  expect(entries().map(({ kind, amount_minor }) => [kind, amount_minor])).toEqual([
    ["earned", 10_00n],
    ["reversal", -10_00n],
  ]);
  for (const { lines } of entries()) expect(lines.reduce((sum, { amount_minor }) => sum + amount_minor, 0n)).toBe(0n);
});

// Sinks turn the records of topics into rows. Rows are derived from the log, so a lost table can be
// built again.

test("what the stores would hold", async () => {
  const { post, rows } = shop();
  await post(visit);
  const sizes = ["analytics", "product-sales", "conversions", "ledger"].map((sink) => [sink, rows(sink).length]);
  expect(Object.fromEntries(sizes)).toEqual({ analytics: 3, "product-sales": 1, conversions: 1, ledger: 1 });
});

// Stages with the same key can share a worker: their events are then passed on in memory, without
// the topics in between. The output is the same byte for byte, so hosting is only a question of
// cost.

test(
  "one worker for three stages or one for each: the same bytes, and nothing on the topics that " + "were skipped",
  async () => {
    const [apart, fused] = [
      shop(),
      shop({}, { hosting: [["enrich", "score", "attribute"], ["settle"], ["commission"]] }),
    ];
    for (const { post } of [apart, fused]) await post(visit);
    for (const name of ["events.attributed", "claims", "conversions", "ledger.entries"]) {
      const [one, other] = [apart, fused].map(({ messages }) =>
        messages(name)
          .map(({ value }) => value!.toString("hex"))
          .sort(),
      );
      expect(one).toEqual(other);
    }
    expect([apart, fused].map(({ messages }) => messages("events.scored").length)).toEqual([3, 0]);
  },
);

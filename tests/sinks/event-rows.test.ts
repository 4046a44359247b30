// The row of an attributed event in the analytics table.
import { expect, test } from "vitest";
import { eventColumns } from "../../sinks/analytics/generated.ts";
import { eventRows } from "../../sinks/analytics/rows.ts";
import { topics } from "../../topics.ts";
import { attributed, clickCredit, recorded } from "../support/builders.ts";

const rowOf = (data: ReturnType<typeof attributed>) => {
  const [row] = eventRows(recorded(topics.eventsAttributed, data));
  return Object.fromEntries(eventColumns.map(({ name }, n) => [name, row?.values[n]]));
};

test("every field of an event stands in the column of its name", () => {
  const named = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, `the ${name}`]));
  const eventFields =
    "event_id sender_event_id did t custom_name source url ref ip ua ip_source ua_source sid " +
    "click_id order_id product_id product_line currency partner_ref dedup_key lead_key sale_hash " +
    "import_id props";
  const placeFields = "country device browser os geo_built";
  const data = attributed(named(eventFields.split(" ")), {
    enrichment: named(placeFields.split(" ")),
    version: 3,
    merged_into: "the merged_into",
  });
  const row = rowOf(data);
  for (const name of [...eventFields.split(" "), ...placeFields.split(" "), "merged_into"])
    expect(row[name]).toBe(`the ${name}`);
  expect(row).toMatchObject({
    client_id: data.event.client_id,
    version: 3,
    value_minor: "10000",
    quantity: 1,
    client_side: true,
    is_bot: false,
  });
});

test("the credit stands beside the event, and every candidate with the reason why it lost", () => {
  const candidates = [{ method: "click", reference: "x", partner_id: 22, campaign_id: null, outcome: "click_expired" }];
  const row = rowOf(
    attributed({}, { credit: clickCredit({ candidates, rule_id: 51, rule_version: 2, reference_as_of: 5 }) }),
  );
  expect(row).toMatchObject({
    credit_status: "attributed",
    credit_method: "click",
    credit_reason: null,
    partner_id: 21,
    campaign_id: 31,
    link_id: 41,
    rule_id: 51,
    rule_version: 2,
    window_days: 30,
    reference_as_of: 5,
  });
  expect(JSON.parse(row.candidates as string)).toEqual(candidates);
});

test("the score stands beside the event with its reasons", () => {
  const reasons = [{ code: "datacenter", weight: 45, evidence: "asn" }];
  const row = rowOf(attributed({}, { fraud: { score: 45, band: "review", reasons } }));
  expect(row).toMatchObject({ fraud_score: 45, fraud_band: "review", fraud_reasons: JSON.stringify(reasons) });
});

test("an amount that a JSON number would round is written digit by digit", () => {
  expect(rowOf(attributed({ value_minor: 9_007_199_254_740_993n })).value_minor).toBe("9007199254740993");
});

test("without consent to analytics an order is stored without address and way, and a page view not at all", () => {
  const silent = { consent: 0xfe };
  const order = attributed(
    { url: "https://shop.example/x", ref: "https://r.example/", ip: "192.0.2.1", ua: "UA" },
    { enrichment: silent },
  );
  expect(rowOf(order)).toMatchObject({
    order_id: "o1",
    value_minor: "10000",
    url: null,
    ref: null,
    ip: null,
    ua: null,
    consent: 0xfe,
  });
  expect(eventRows(recorded(topics.eventsAttributed, attributed({ t: "page_view" }, { enrichment: silent })))).toEqual(
    [],
  );
});

// Rows of external sources become events, and a repeated row the same event: which fields identify
// a row.
import { expect, test } from "vitest";
import { identifyFor, pepperOf } from "../../domain/device-id.ts";
import { readMapping } from "../../domain/sources/map-payload.ts";
import { admitPulled } from "../../processors/admit/sources/pulled-row.ts";
import { clientId, noon } from "../support/builders.ts";

const facts = { clientId, segments: [], consentDefault: 0xff, identify: identifyFor(pepperOf("secret", clientId), 10) };
const mapping = readMapping({
  mapping: {
    ...{ event_name: "event", value: "revenue.amount", currency: "revenue.currency", ts: "event_time" },
    ...{ order_id: "order", did: "device", partner_param: "partner", product_id: "item" },
  },
  constants: {},
  event_names: { af_purchase: "ext_purchase" },
});
const from = { sourceId: 7, mapping };
const row = {
  ...{ event: "af_purchase", order: "A-1", device: "phone", partner: "ana", event_time: "2026-06-15T18:00:00Z" },
  revenue: { amount: "12.50", currency: "USD" },
};
const admitted = (given: object, over: object = {}, receivedAt = noon) =>
  admitPulled({ ...from, ...over }, receivedAt, facts)(given);
const eventOf = (...given: Parameters<typeof admitted>) => {
  const result = admitted(...given);
  if (result.kind === "refused") throw new Error(JSON.stringify(result.refusal));
  return result.event;
};

test("a purchase of a measurement partner is an ext_purchase with its order, amount, partner and identity", () => {
  const event = eventOf(row);
  expect(event).toMatchObject({
    ...{ t: "ext_purchase", source: "pull", order_id: "A-1", value_minor: 1250n, currency: "USD" },
    ...{ ts: Date.parse(row.event_time), partner_ref: "ana", client_id: clientId },
  });
  expect(event.sale_hash).toMatch(/^[0-9a-f]{64}$/);
  expect(event.sender_event_id).toBe(`pull-${event.sale_hash}`);
});

test("the same row is the same event, however late it is pulled and however its amount is written", () => {
  const { event_id, sale_hash } = eventOf(row);
  for (const amount of ["12.5", 12.5, "12.50"])
    expect(eventOf({ ...row, revenue: { ...row.revenue, amount } }, {}, noon + 86_400_000)).toMatchObject({
      event_id,
      sale_hash,
    });
});

test.each<[string, object, object]>([
  ["another order", { order: "A-2" }, {}],
  ["another amount", { revenue: { amount: "12.51", currency: "USD" } }, {}],
  ["another currency", { revenue: { amount: "12.50", currency: "MXN" } }, {}],
  ["another name", { event: "ext_renewal" }, {}],
  ["another time", { event_time: "2026-06-15T18:00:01Z" }, {}],
  ["another line of the order", { item: "sku2" }, {}],
  ["another source", {}, { sourceId: 8 }],
])("%s is another event", (_, change, source) => {
  const other = eventOf({ ...row, ...change }, source);
  expect(other.event_id).not.toBe(eventOf(row).event_id);
  expect(other.sale_hash).not.toBe(eventOf(row).sale_hash);
});

test("two installs at one moment are two, by their devices", () => {
  const install = { event: "install", event_time: row.event_time };
  const [one, two] = ["phone", "tablet"].map((device) => eventOf({ ...install, device }));
  expect(one!.t).toBe("install");
  expect(one!.event_id).not.toBe(two!.event_id);
});

test.each<[string, unknown, string, string]>([
  ["without a time", { ...row, event_time: undefined }, "missing_field", "ts"],
  ["that names neither order nor device", { ...row, order: null, device: "" }, "missing_field", "order_id"],
  ["without a name", { ...row, event: undefined }, "missing_field", "event_name"],
  [
    "with an amount that is none",
    { ...row, revenue: { amount: "12,5", currency: "USD" } },
    "bad_amount",
    "props.revenue",
  ],
  ["of a day that is too old", { ...row, event_time: "2020-01-01T00:00:00Z" }, "ts_too_old", "ts"],
  ["that is a list", [row], "missing_field", "event_name"],
  ["that is null", null, "missing_field", "event_name"],
])("a row %s is refused by its field, and its values are not quoted", (_, given, code, field) => {
  const result = admitted(given as object);
  expect(result).toMatchObject({ kind: "refused", refusal: { code, field } });
  expect(JSON.stringify(result)).not.toMatch(/A-1|ana|12,5/);
});

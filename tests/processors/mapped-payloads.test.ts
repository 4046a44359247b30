// Payloads of sources: where a path leads, which values are coerced, and the messages of refusals.
import { describe, expect, test } from "vitest";
import { identifyFor, pepperOf } from "../../domain/device-id.ts";
import { mapPayload, readMapping } from "../../domain/sources/map-payload.ts";
import { kindOf, readPath, valueAt } from "../../domain/sources/path.ts";
import type { SourceKind, SourceMapping } from "../../domain/sources/source.ts";
import { acceptsGeneric, admitGeneric, envelopeOf, type SourceFacts } from "../../processors/admit/sources/generic.ts";
import type { Arrival } from "../../stream/flow.ts";

const NOW = Date.UTC(2026, 4, 1, 12);
const mapping: SourceMapping = {
  mapping: {
    event_name: "event",
    dedup_key: "data.id",
    value: "/data/amount",
    currency: "data.currency",
    partner_param: "subs.0",
    ts: "at",
  },
  constants: { product_line: "MX" },
  event_names: { "order.paid": "purchase", refunded: "refund" },
};
const payload = {
  event: "order.paid",
  data: { id: "T-1", amount: "1234.50", currency: " mxn " },
  subs: ["ref-7"],
  at: 1_777_636_800,
};
const arrival: Arrival = { receivedAt: NOW, sender: "203.0.113.9", address: "203.0.113.9", header: () => undefined };
const factsOf = (of: SourceMapping, movesMoney = true, kind: SourceKind = "postback_network"): SourceFacts => ({
  ...{
    clientId: 7,
    segments: [],
    consentDefault: 255,
    identify: identifyFor(pepperOf("a secret of the installation", 7), 100),
  },
  source: { slug: "network", kind, read: readMapping(of), movesMoney },
});
const admitted = (given: unknown, of = mapping, movesMoney = true) => {
  const bytes = Buffer.from(typeof given === "string" ? given : JSON.stringify(given));
  const body = acceptsGeneric(envelopeOf({ sourceId: 3, clientId: 7 }, bytes));
  return [...admitGeneric(body, arrival, factsOf(of, movesMoney))][0]!;
};
const dataOf = (given: unknown, of = mapping) => {
  const found = admitted(given, of);
  if (found.kind !== "accepted") throw new Error(found.refusal.message);
  return found.data;
};
const refusalOf = (given: unknown, of = mapping) => {
  const found = admitted(given, of);
  if (found.kind === "accepted") throw new Error("it was accepted");
  return found.refusal;
};
const withPath = (field: string, path: string): SourceMapping => ({
  ...mapping,
  mapping: { ...mapping.mapping, [field]: path },
});

test("a payload becomes the event that its mapping says", () => {
  expect(dataOf(payload)).toMatchObject({
    t: "purchase",
    source: "generic:network",
    dedup_key: "T-1",
    partner_ref: "ref-7",
    value_minor: 123_450n,
    currency: "MXN",
    product_line: "MX",
    ts: 1_777_636_800_000,
    client_side: false,
    sender_event_id: null,
  });
});
test("what a network reports is a partner's word, and what another source sends is the client's", () => {
  const body = acceptsGeneric(envelopeOf({ sourceId: 3, clientId: 7 }, Buffer.from(JSON.stringify(payload))));
  const byPartner = (kind: SourceKind) => {
    const [found] = [...admitGeneric(body, arrival, factsOf(mapping, true, kind))];
    return found?.kind === "accepted" ? found.data.by_partner : undefined;
  };
  expect(byPartner("postback_network")).toBe(true);
  for (const kind of ["generic", "property_relay", "mmp"] as const) expect(byPartner(kind)).toBe(null);
});
test("the same key of the same source is the same event, whatever else changed", () => {
  const again = { ...payload, at: 1_777_636_900, data: { ...payload.data, amount: 3 } };
  expect(dataOf(again).event_id).toBe(dataOf(payload).event_id);
  expect(dataOf({ ...payload, data: { ...payload.data, id: "T-2" } }).event_id).not.toBe(dataOf(payload).event_id);
});
test("a name that is a type is that type, a name of the table is ours, another one is a custom event", () => {
  expect(dataOf({ ...payload, event: "purchase" }).t).toBe("purchase");
  expect(dataOf({ ...payload, event: "signup" })).toMatchObject({ t: "custom", custom_name: "signup" });
  expect(refusalOf({ ...payload, event: "Order Shipped!" })).toMatchObject({
    code: "unknown_event",
    field: "event_name",
  });
});
test("a name of the table that every object inherits is no name of the table", () => {
  expect(dataOf({ ...payload, event: "constructor" })).toMatchObject({ t: "custom", custom_name: "constructor" });
  expect(refusalOf({ ...payload, event: "toString" })).toMatchObject({ code: "unknown_event" });
});

describe("a refusal names the logical field, its path and what lies there", () => {
  test.each([
    ["missing key", { ...payload, data: { amount: 1 } }, 'dedup_key at "data.id" found data has no id'],
    ["no object on the way", { ...payload, data: "x" }, 'dedup_key at "data.id" found data is a text of 1 characters'],
    ["empty key", { ...payload, data: { id: "" } }, 'dedup_key at "data.id" found an empty text'],
    ["list as key", { ...payload, data: { id: ["a"] } }, 'dedup_key at "data.id" found a list of 1'],
    ["object as value", { ...payload, data: { id: "1", amount: {} } }, 'value at "/data/amount" found an object'],
    ["value with an exponent", { ...payload, data: { id: "1", amount: "1e5" } }, 'value at "/data/amount"'],
    ["value with commas", { ...payload, data: { id: "1", amount: "1.000,00" } }, 'value at "/data/amount"'],
    ["no value", { ...payload, data: { id: "1" } }, 'value at "/data/amount"'],
    ["bad time", { ...payload, at: "yesterday" }, 'ts at "at" found a text of 9 characters'],
  ])("%s", (_, given, said) => {
    const { message } = refusalOf(given);
    expect(message).toContain(said);
  });
  test("and quotes nothing of the payload", () => {
    const { message } = refusalOf({ ...payload, at: "ana@example.com" });
    expect(message).not.toContain("ana@example.com");
  });
});

describe("what no payload may reach", () => {
  test.each(["__proto__.polluted", "/constructor/name", "a.prototype"])("%s is no path", (path) => {
    expect(readPath(path)).toHaveProperty("problem");
  });
  test("what every object inherits is nothing of a payload", () => {
    const path = readPath("toString");
    expect("steps" in path && valueAt({}, path)).toBeUndefined();
    expect("steps" in path && valueAt({ toString: 1 }, path)).toBe(1);
  });
  test.each(['{"__proto__":{"a":1}}', '{"a":{"constructor":1}}'])("%s is refused before it is mapped", (text) => {
    expect(() => admitted(text)).toThrow(/not allowed/);
    expect(({} as { a?: unknown }).a).toBeUndefined();
  });
  test.each(["[]", "null", "3", '"x"', "{", ""])("%s is no payload", (text) => expect(() => admitted(text)).toThrow());
});

describe("coercions", () => {
  const mapped = (field: string, value: unknown) => {
    const found = mapPayload({ ...payload, x: value }, readMapping(withPath(field, "x")));
    return "code" in found ? found.code : found[field as "ts"];
  };
  test("time comes in seconds, in milliseconds, as text, and as RFC 3339 with a zone", () => {
    for (const given of [
      1_777_636_800,
      1_777_636_800_000,
      "1777636800",
      "2026-05-01T12:00:00Z",
      "2026-05-01 06:00:00-06:00",
    ])
      expect(mapped("ts", given)).toBe(1_777_636_800_000);
    for (const given of ["2026-05-01T12:00:00", -1, true, {}]) expect(mapped("ts", given)).toBe("bad_field");
  });
  test("ids come as text or whole numbers, quantities as numbers or their text", () => {
    expect([mapped("order_id", 17), mapped("order_id", " A 1 "), mapped("order_id", 1.5)]).toEqual([
      "17",
      "A 1",
      "bad_field",
    ]);
    expect([mapped("quantity", "3"), mapped("quantity", 3), mapped("quantity", "3.5")]).toEqual([3, 3, "bad_field"]);
    expect(mapped("dedup_key", "k".repeat(1_000_000))).toBe("bad_field");
  });
  test("a constant stands where the payload says nothing", () => {
    const of = { ...mapping, constants: { currency: "USD" } };
    const { currency: _, ...data } = payload.data;
    expect(dataOf({ ...payload, data }, of).currency).toBe("USD");
    expect(dataOf(payload, of).currency).toBe("MXN");
  });
});

test("JSON Pointers reach names with dots and slashes", () => {
  const path = readPath("/a.b/c~1d/0");
  expect("steps" in path && valueAt({ "a.b": { "c/d": [5] } }, path)).toBe(5);
  expect(readPath("/a~2")).toHaveProperty("problem");
  expect(readPath("a..b")).toHaveProperty("problem");
});
test("what lies somewhere is said in words", () => {
  expect([undefined, null, [1], {}, "", "ab", 1, true].map(kindOf)).toEqual([
    ...["nothing", "null", "a list of 1", "an object", "an empty text", "a text of 2 characters", "a number"],
    "true or false",
  ]);
});

describe("an unsigned source that may move no money", () => {
  const naming = { ...mapping, mapping: { ...mapping.mapping, click_id: "click" } };
  const ofType = (event: string, movesMoney: boolean) =>
    admitted(
      { event, data: { id: "T-9", amount: "5", currency: "MXN" }, subs: ["ref-7"], click: "c" },
      naming,
      movesMoney,
    );
  test.each(["purchase", "ext_purchase", "refund", "lead_submit", "install"])("%s is refused", (event) => {
    expect(ofType(event, false)).toMatchObject({
      kind: "refused",
      refusal: { code: "unsigned_money", field: "event_name", message: expect.stringContaining("set its secret") },
    });
  });
  test("another event is taken without its partner and its click", () => {
    const [free, bound] = [ofType("ext_trial", true), ofType("ext_trial", false)] as any[];
    expect([free.data.partner_ref, free.data.svc_click_id ?? free.data.click_refused]).not.toEqual([null, null]);
    expect([bound.kind, bound.data.partner_ref, bound.data.svc_click_id ?? null]).toEqual(["accepted", null, null]);
  });
});

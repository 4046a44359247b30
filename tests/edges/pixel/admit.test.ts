// Bodies of a browser to the pixel, and the records that they become.
import { describe, expect, test } from "vitest";
import { identifyFor, pepperOf } from "../../../domain/device-id.ts";
import { pageEventId, sentEventId } from "../../../domain/ids.ts";
import { acceptsPixel, admitPixel } from "../../../processors/admit/pixel.ts";
import type { EventReceived } from "../../../schemas/generated.ts";
import { type Arrival, BadBody } from "../../../stream/flow.ts";
import { noon } from "../../support/builders.ts";

const facts = {
  clientId: 7,
  segments: [],
  consentDefault: 0xff,
  identify: identifyFor(pepperOf("a secret of the installation", 7), 100),
};
const arrivalWith = (headers: Readonly<Record<string, string>> = {}): Arrival => ({
  receivedAt: noon,
  sender: "198.51.100.9",
  address: "198.51.100.9",
  header: (name) => headers[name],
});
const view = { t: "page_view", ts: noon - 1_000, url: "https://shop.example/a" };
const envelope = (over: object = {}, ...events: readonly object[]) => ({
  cid: 7,
  did: "visitor-1",
  sid: "session-1",
  events: events.length === 0 ? [view] : events,
  ...over,
});
const admit = (given: unknown, headers: Readonly<Record<string, string>> = {}, over: object = {}) => [
  ...admitPixel(acceptsPixel(Buffer.from(JSON.stringify(given))), arrivalWith(headers), { ...facts, ...over }),
];
const recordOf = (given: unknown, headers = {}, over = {}): EventReceived => {
  const [admission] = admit(given, headers, over);
  if (admission?.kind !== "accepted") throw new Error(JSON.stringify(admission));
  return admission.data;
};
const codeOf = (given: unknown): string => {
  const [admission] = admit(given);
  return admission?.kind === "refused" ? admission.refusal.code : "accepted";
};

test("an event has what its envelope says for all, and its own where it brings it", () => {
  const [first, second] = admit(envelope({}, view, { ...view, did: "visitor-2", sid: "session-2" }));
  expect(first).toMatchObject({ kind: "accepted", data: { client_id: 7, sid: "session-1", source: "pixel" } });
  expect(second).toMatchObject({ kind: "accepted", data: { sid: "session-2", client_side: true } });
  const dids = [first, second].map((one) => (one?.kind === "accepted" ? one.data.did : ""));
  expect(new Set(dids).size).toBe(2);
});

test("one event without an envelope is taken as well", () =>
  expect(recordOf({ ...view, cid: "7", did: "visitor-1" })).toMatchObject({ t: "page_view", client_id: 7 }));

test("address and browser are those of the request, whatever a page writes", () =>
  expect(
    recordOf(envelope({}, { ...view, ip: "203.0.113.1", ua: "a bank" }), { "user-agent": "Firefox" }),
  ).toMatchObject({ ip: "198.51.100.9", ua: "Firefox", ip_source: "request", ua_source: "request" }));

describe("every event has an id of pages, so that a stranger takes no id of a real one", () => {
  const sale = { ...view, t: "purchase", props: { order_id: "9101", revenue: "1", product_id: "x", quantity: 1 } };
  const lead = { ...view, t: "lead_submit", props: { client_lead_id: "L-1" } };
  const idOf = (event: object): string => recordOf(envelope({}, { ...event, event_id: "order-9101-1" })).event_id;
  const withProps = (props: object) => ({ ...sale, props: { ...sale.props, ...props } });
  test.each([
    ["a purchase", sale],
    ["a purchase with a placeholder as its order", withProps({ order_id: " NULL " })],
    ["a lead", lead],
    ["a lead of an unknown person", { ...lead, props: {} }],
    ["an install", { ...view, t: "install" }],
    ["a custom event", { ...view, t: "signup" }],
    ["a page view", view],
    ["a product in a cart", { ...view, t: "add_to_cart", props: { product_id: "lamp", price: "1", quantity: 1 } }],
  ])("%s", (_, event) => {
    const { event_id, sender_event_id } = recordOf(envelope({}, { ...event, event_id: "order-9101-1" }));
    expect(sender_event_id).toBe("order-9101-1");
    expect(event_id).not.toBe(sentEventId(7, "order-9101-1"));
    // Sent again, it is the same event.
    expect(idOf({ ...event, ts: noon, sid: "another" })).toBe(event_id);
  });
  test.each([
    ["another order", withProps({ order_id: "evil" })],
    ["another product", withProps({ product_id: "y" })],
    ["another amount", withProps({ revenue: "500.00" })],
    ["another currency", withProps({ currency: "USD" })],
    ["another device", { ...sale, did: "visitor-2" }],
    ["another type", { ...sale, t: "checkout_started" }],
    ["a lead", lead],
    ["another lead", { ...lead, props: { client_lead_id: "L-2" } }],
    ["a page view", view],
  ])("%s under the id of a purchase is another event", (_, event) => expect(idOf(event)).not.toBe(idOf(sale)));
  test("that of what earns nothing can be computed from the sender's", () =>
    expect(idOf(view)).toBe(pageEventId(7, "order-9101-1")));
});

test.each([...["stripe:pi_1", "mercadopago:77", "adyen:791", "pull-0a1b"], "led_6ad0c3f1b7f548f08b4b3fd2a1c0e9d7"])(
  "the id %s is that of a notice, a pulled sale or a lead",
  (event_id) => {
    const own = recordOf(envelope({}, view));
    const stolen = recordOf(envelope({}, { ...view, event_id }));
    expect(stolen).toMatchObject({ event_id: own.event_id, sender_event_id: null, warnings: ["event_id_reserved"] });
    const near = recordOf(envelope({}, { ...view, event_id: `x${event_id}` }));
    expect([near.event_id === own.event_id, near.warnings]).toEqual([false, []]);
  },
);

describe("the browser's signals", () => {
  test.each([
    [{ "sec-gpc": "1" }, ["gpc"]],
    [{ dnt: "1" }, ["dnt"]],
    [{ "sec-gpc": "1", dnt: "1" }, ["gpc", "dnt"]],
    [{ "sec-gpc": "0", dnt: "null" }, []],
  ])("%j are the warnings %j of every event", (headers, warnings) =>
    expect(recordOf(envelope(), headers).warnings).toEqual(warnings),
  );
});

test("a visitor who chose nothing has the default of the client, and a choice stands", () => {
  expect(recordOf(envelope(), {}, { consentDefault: 0 }).consent).toBe(0);
  expect(recordOf(envelope({ consent: 3 }), {}, { consentDefault: 0 }).consent).toBe(3);
});

describe("a choice of a page that did not know its client's default", () => {
  const chosen = (choice: object, consentDefault: number, props: object = {}) => {
    const event = { ...view, t: "consent", consent: choice, props: { ...choice, at: noon, ...props } };
    return recordOf(envelope({}, event), {}, { consentDefault });
  };
  test.each([
    [{ set: 0x01, clear: 0x04 }, 0xff, 0xfb],
    [{ set: 0x01, clear: 0x04 }, 0x00, 0x01],
    [{ set: 0, clear: 0x04 }, 0x00, 0x00],
    [{ set: 0x80 }, 0x01, 0x81],
    [{ clear: 0xff }, 0xff, 0x00],
  ])("%j over the default %i is the mask %i, of the event and of what it reports", (choice, byDefault, mask) => {
    const { consent, props } = chosen(choice, byDefault);
    expect([consent, JSON.parse(props)]).toEqual([mask, { ...choice, at: noon, mask }]);
  });

  test("does not change a mask that the event reports itself", () =>
    expect(JSON.parse(chosen({ set: 1 }, 0, { mask: 3 }).props).mask).toBe(3));

  test.each([
    ["more than a mask", { set: 256 }],
    ["the same bit twice", { set: 1, clear: 1 }],
    ["a text", { set: "1" }],
    ["a list", []],
  ])("is refused when it is %s", (_, consent) =>
    expect(codeOf(envelope({}, { ...view, consent }))).toBe("bad_consent"),
  );

  test("reports nothing when its bits are not masks", () =>
    expect(JSON.parse(chosen({}, 0, { set: "1", clear: 999 }).props)).not.toHaveProperty("mask"));
});

describe("names", () => {
  test("any printable name is a custom event of that name, beside its type or in its props", () => {
    const name = "Añadió a favoritos ❤";
    for (const given of [
      { t: name },
      { t: "custom", custom_name: name },
      { t: "custom", props: { custom_name: name } },
    ])
      expect(recordOf(envelope({}, { ...view, ...given }))).toMatchObject({ t: "custom", custom_name: name });
  });
  test.each(["", " ", "a\nb", "a\u0000", "x".repeat(65), "\u202eabc", 5, null, {}])("%j is none", (t) =>
    expect(codeOf(envelope({}, { ...view, t }))).toMatch(/unknown_type|bad_text/),
  );
  test("an e-mail in a name does not stay one", () => {
    const { custom_name } = recordOf(envelope({}, { ...view, t: "Hi ana@shop.example" }));
    expect(custom_name).not.toContain("@");
  });
  test.each(["click", "click_filtered", "refund", "ext_purchase"])("%s is not sent by pages, by no field", (t) => {
    for (const named of [
      { t },
      { t: "custom", custom_name: t },
      { t: "custom", props: { custom_name: t } },
      { t: "custom", props: { event_name: t } },
      { t: "custom", props: { custom_name: 5, event_name: t } },
    ]) {
      const props = { order_id: "9004", revenue: "1", ...("props" in named ? named.props : {}) };
      expect(codeOf(envelope({}, { ...view, svc_click_id: "x", ...named, props }))).toBe("not_from_pixel");
    }
  });
});

test("an event of another client inside the envelope is refused alone", () => {
  const [own, other] = admit(envelope({}, view, { ...view, cid: 8 }));
  expect([own?.kind, other]).toMatchObject(["accepted", { kind: "refused", refusal: { code: "wrong_client" } }]);
});

describe("a body that holds no events", () => {
  const refusedWith = (bytes: Uint8Array | string): string => {
    try {
      acceptsPixel(typeof bytes === "string" ? Buffer.from(bytes) : bytes);
      return "accepted";
    } catch (error) {
      if (!(error instanceof BadBody)) throw error;
      return error.code;
    }
  };
  test.each(["", "null", "[]", '"x"', "NaN", "{", "[".repeat(60_000), '{"a":1e400'])("%.20s is refused", (text) =>
    expect(refusedWith(text)).toBe("bad_json"),
  );
  test("bytes that are no UTF-8 are refused", () => expect(refusedWith(Buffer.from([0xff, 0xfe]))).toBe("bad_json"));
  test("no events and more than a hundred are refused", () => {
    for (const count of [0, 101])
      expect(refusedWith(JSON.stringify(envelope({ events: Array(count).fill(view) })))).toBe("bad_events");
  });
  test.each([undefined, null, 0, -1, 1.5, 2 ** 31, "07", [7], {}, true])("the client %j is none", (cid) =>
    expect(acceptsPixel(Buffer.from(JSON.stringify(envelope({ cid })))).clientId).toBeNull(),
  );
});

test("what is deep, forbidden or not an object is refused alone", () => {
  const deep = JSON.parse(`${'{"a":'.repeat(40)}1${"}".repeat(40)}`);
  const text = JSON.stringify(envelope({}, { ...view, props: deep }, view)).replace(
    '"events":[',
    '"events":[5,{"t":"page_view","props":{"__proto__":{"x":1}}},',
  );
  const kinds = [...admitPixel(acceptsPixel(Buffer.from(text)), arrivalWith(), facts)].map((one) =>
    one.kind === "refused" ? one.refusal.code : one.kind,
  );
  expect(kinds).toEqual(["bad_event", "bad_key", "too_deep", "accepted"]);
  expect(({} as Record<string, unknown>).x).toBeUndefined();
});

test("the same body is the same records, so what is sent twice counts once", () =>
  expect(admit(envelope())).toEqual(admit(envelope())));

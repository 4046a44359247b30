// Chapter 1: an event. What a sender sends, how the edge records it, and why sending it twice is
// harmless.
import { expect, test } from "vitest";
import { clickIdKey, mint, verify } from "../../domain/click-id.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import type { Refusal } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { clientId, hourMs, linkId, noon, secondMs } from "../support/builders.ts";
import { admit, pageView, purchase, token, type Written } from "../support/shop.ts";

// An event is a fact: a person saw a page, bought something, or gave it back. It arrives as JSON at
// an edge. The edge is thin: it parses the event, admits or refuses it, writes it to the log, and
// answers once the log has it. Every edge writes the same record: EventReceived.

const taken = (event: Written, receivedAt = noon): EventReceived => {
  const [admission] = admit([event], receivedAt);
  if (admission?.kind !== "accepted") throw new Error(`refused: ${JSON.stringify(admission)}`);
  return admission.data;
};
const refused = (event: Written): Refusal => {
  const [admission] = admit([event]);
  if (admission?.kind !== "refused") throw new Error("accepted");
  return admission.refusal;
};

test("a purchase becomes a record: its fields lifted out of the props, its money an integer of minor units", () =>
  expect(taken(purchase({}, { revenue: "1234.50" }))).toMatchObject({
    client_id: clientId,
    t: "purchase",
    order_id: "o1",
    product_id: "sku1",
    quantity: 1,
    value_minor: 1_234_50n,
    currency: "MXN",
    source: "batch",
  }));

// Money is never a floating-point number. A text with more digits than its currency has is an error
// of the sender, so it is refused. A JSON number was already rounded once by its sender; it is
// rounded half to even, with a warning on the event.

test("0.1 + 0.2 is thirty cents", () =>
  expect(taken(purchase({}, { revenue: 0.1 + 0.2 }))).toMatchObject({
    value_minor: 30n,
    warnings: ["amount_rounded"],
  }));
test("a text with a third decimal is refused", () =>
  expect(refused(purchase({}, { revenue: "10.005" }))).toMatchObject({ code: "bad_amount", field: "props.revenue" }));

// A body holds up to 10,000 events. One bad event does not affect the others, and its refusal names
// the place and the fix.

test("each event is answered for itself", () => {
  const answers = admit([pageView(), purchase({ did: "" }), pageView({ ts: noon - secondMs })]);
  expect(answers.map(({ kind }) => kind)).toEqual(["accepted", "refused", "accepted"]);
  expect(answers[1]).toMatchObject({ refusal: { code: "bad_did", field: "did", retryable: false } });
});

// Networks fail after the work is done, so every sender sends some events twice. An id makes the
// two one. A sender may give an event_id, which is kept apart for each client: two clients may both
// have an event "1". Without one, the id is derived from the content of the event.

test("the same event sent again has the same id, whatever address or browser it comes from", () =>
  expect(taken(purchase({ ip: "192.0.2.1", ua: "Safari" })).event_id).toBe(taken(purchase()).event_id));
test("another order is another event", () =>
  expect(taken(purchase({}, { order_id: "o2" })).event_id).not.toBe(taken(purchase()).event_id));
test("with an event_id the rest may even differ: the sender says that it is the same", () =>
  expect(taken(purchase({ event_id: "e1" }, { revenue: "1.00" })).event_id).toBe(
    taken(purchase({ event_id: "e1" })).event_id,
  ));

// An event has two times. `ts` is when it happened, by the sender's clock; the envelope's
// `receivedAt` is when the edge accepted it. A clock that is fast by less than a day is tolerated:
// the event counts at its arrival but keeps its own ts, so that a resend is still the same event.

test("a clock an hour ahead: the event happened when it came", () => {
  const [admission] = admit([pageView({ ts: noon + hourMs })], noon);
  expect(admission).toMatchObject({
    kind: "accepted",
    at: noon,
    data: { ts: noon + hourMs, warnings: ["ts_clamped"] },
  });
});
test("seconds instead of milliseconds: refused, with a hint", () =>
  expect(refused(pageView({ ts: noon / 1_000 }))).toMatchObject({
    code: "ts_too_old",
    message: expect.stringContaining("milliseconds"),
  }));

// Nothing that identifies a person reaches the log in plain text. A device id becomes HMAC(pepper
// of the client, SHA-256(id)): equal for equal devices of one client, unrelated between clients,
// and impossible to reverse without the secret. E-mail addresses are found in every field.

test("a device is the same device within its client, and a stranger to every other", () => {
  const [other] = admit([pageView({ cid: 8 })], noon, token({ clientId: 8 }));
  expect(taken(pageView()).did).toMatch(/^[0-9a-f]{64}$/);
  expect(taken(pageView()).did).toBe(taken(purchase()).did);
  expect(other).toMatchObject({ kind: "accepted" });
  expect(other).not.toMatchObject({ data: { did: taken(pageView()).did } });
});
test("an e-mail is hashed under any key, inside any text, and even in a URL", () => {
  const event = taken(
    pageView({
      url: "https://shop.example/?for=ana@example.com",
      props: { note: "ask Ana@Example.com", Email: "ana@example.com" },
    }),
  );
  expect(JSON.stringify(event)).not.toMatch(/ana@example/i);
  expect(event.warnings).toEqual(["pii_hashed"]);
});

// The click id is the id that a tracking link gives to a visit. It holds the link, the time, and a
// MAC over both. With the key one can read which link sent the visitor, without a store; without
// the key one cannot make such an id.

test("a click id says which link was clicked and when, and one changed bit makes it worthless", () => {
  const key = clickIdKey("a secret", 1);
  const id = mint(linkId, noon, new Uint8Array(8), key);
  const bytes = Buffer.from(id, "base64url");
  bytes[9]! ^= 1;
  expect(verify(id, [key])).toEqual({ link_id: linkId, clicked_at: noon });
  expect(verify(bytes.toString("base64url"), [key])).toBeUndefined();
});

// In the log a record has a key. All events of one device are in one partition and so in order,
// which is what makes memory possible (chapter 4).

test("the key of an event is its client and its device", () => {
  const event = taken(pageView());
  expect(topics.eventsRaw.keyOf(event)).toBe(`${clientId}:${event.did}`);
  expect(topics.eventsRaw.idOf(event)).toBe(event.event_id);
});

// POST /postback/stripe: payloads signed by Stripe become purchases and refunds, in any order and
// however often they come; payloads signed by others become nothing.
import { afterAll, describe, expect, test } from "vitest";
import { inMemoryWire } from "../../../infra/avro/wire.ts";
import { readmitted } from "../../../modules/intake/path/refused-events.ts";
import { type ProviderSettings, postbackFactsOf } from "../../../modules/intake/payment-notices/provider-settings.ts";
import { acceptsPostback, admitPostback, envelopeOf } from "../../../processors/admit/payments/postback.ts";
import { letterHeaders } from "../../../stream/dead-letters.ts";
import { topics } from "../../../topics.ts";
import { clientId, hourMs, noon } from "../../support/builders.ts";
import { edgeKeyring, openEdgeHost } from "../../support/edge-host.ts";
import { clickBefore, shop, token } from "../../support/shop.ts";
import {
  charge,
  checkoutSession,
  dispute,
  paymentIntent,
  type StripeObject,
  stripeEvent,
  stripeHeader,
} from "../../support/stripe-notices.ts";

const secret = "whsec_jR8vN2mX5tL9qZ3kB7wY1cH4";
const settings = new Map<string, ProviderSettings>([["stripe", { secret }]]);
const host = await openEdgeHost(undefined, {
  processors: {
    settingsOf: async (_, processor) => settings.get(processor),
    renew: async () => undefined,
    dummy: "nothing",
  },
});
afterAll(() => host.close());

interface Answer {
  readonly status: number;
  readonly body: any;
}
const ask = async (path: string, body: string, headers: Record<string, string> = {}): Promise<Answer> => {
  const answer = await fetch(`http://127.0.0.1:${host.port}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json; charset=utf-8", ...headers },
    body,
  });
  return { status: answer.status, body: await answer.json() };
};
const path = `/postback/stripe?client_id=${clientId}`;
const send = (payload: string, signedBy = secret, at = Date.now()): Promise<Answer> =>
  ask(path, payload, { "stripe-signature": stripeHeader(payload, signedBy, at) });
/** Each test has a payment of its own, so that it never meets the notices of another test. */
let payments = 0;
const newPayment = (metadata: StripeObject = {}, over: StripeObject = {}) => {
  payments += 1;
  const id = `pi_test_${payments}`;
  return { id, intent: paymentIntent({ id, metadata: { order_id: `o-${payments}`, ...metadata }, ...over }) };
};
const last = () => host.events.at(-1)!;
const withoutEffect = async (work: () => Promise<unknown>): Promise<void> => {
  const before = [host.events.length, host.letters.length];
  await work();
  expect([host.events.length, host.letters.length]).toEqual(before);
};

describe("a payment that succeeded", () => {
  test("is a purchase of the order that its metadata name", async () => {
    const clicked = clickBefore(hourMs);
    const { id, intent } = newPayment({ svc_click_id: clicked, product_id: "lamp", quantity: "2", did: "phone" });
    expect(await send(stripeEvent("payment_intent.succeeded", intent))).toEqual({
      status: 200,
      body: { status: "accepted", event_id: `stripe:${id}` },
    });
    expect(last()).toMatchObject({
      ...{ t: "purchase", source: "postback:stripe", client_id: clientId, client_side: false, click_id: clicked },
      ...{ order_id: `o-${payments}`, product_id: "lamp", quantity: 2, value_minor: 129900n, currency: "MXN" },
      ...{ ip: null, ua: null, did: token().identify.plain("phone") },
    });
  });

  test("may be the total of its order: the metadata need no product", async () => {
    const { intent } = newPayment();
    expect(await send(stripeEvent("payment_intent.succeeded", intent))).toMatchObject({ status: 200 });
    expect(last()).toMatchObject({ t: "purchase", product_id: null, quantity: null, value_minor: 129900n });
  });

  test("has one id, whether the intent, the charge or the checkout reports it", async () => {
    const { id, intent } = newPayment();
    const metadata = { order_id: "one" };
    for (const event of [
      stripeEvent("payment_intent.succeeded", intent),
      stripeEvent("charge.succeeded", charge({ payment_intent: id, metadata })),
      stripeEvent("checkout.session.completed", checkoutSession({ payment_intent: id, metadata })),
      stripeEvent("checkout.session.async_payment_succeeded", checkoutSession({ payment_intent: id, metadata })),
    ]) {
      expect(await send(event)).toMatchObject({ status: 200, body: { event_id: `stripe:${id}` } });
      expect(last()).toMatchObject({ sender_event_id: `stripe:${id}`, value_minor: 129900n });
    }
  });

  test.each([
    ["JPY", 5_000, "5000", 5_000n],
    ["CLP", 12_990, "12990", 12_990n],
    ["USD", 1_050, "10.50", 1_050n],
    ["KWD", 5_120, "5.120", 5_120n],
    // Stripe's minor units differ from ISO 4217 in some currencies.
    ["MGA", 50, "50.00", 5_000n],
    ["ISK", 500, "5", 5n],
    ["UGX", 1_500, "15", 15n],
  ])("in %s of %i minor units of Stripe is worth %s", async (currency, amount, text, minor) => {
    const { intent } = newPayment({}, { amount_received: amount, currency: currency.toLowerCase() });
    expect(await send(stripeEvent("payment_intent.succeeded", intent))).toMatchObject({ status: 200 });
    expect(last()).toMatchObject({ value_minor: minor, currency });
    expect(JSON.parse(last().props).revenue).toBe(text);
  });

  test("that comes again is a duplicate, with another amount too, and is stored once", async () => {
    const { intent } = newPayment();
    const event = stripeEvent("payment_intent.succeeded", intent);
    expect((await send(event)).body.status).toBe("accepted");
    await withoutEffect(async () => {
      expect(await send(event)).toMatchObject({ status: 200, body: { status: "duplicate" } });
      expect(await send(event.replace('"amount_received":129900', '"amount_received":1'))).toMatchObject({
        status: 200,
        body: { status: "duplicate" },
      });
    });
  });
});

describe("money that went back", () => {
  test("each refund of a charge takes what it adds, of the order that the charge names", async () => {
    const metadata = { order_id: "back-1", product_id: "lamp" };
    const of = (amount: number, before: number, id = "ch_back1") =>
      stripeEvent("charge.refunded", charge({ id, amount_refunded: amount, metadata }), {
        previous_attributes: { amount_refunded: before },
      });
    // The second notice comes first.
    await send(of(5_000, 2_000));
    expect(last()).toMatchObject({ t: "refund", order_id: "back-1", product_id: "lamp", value_minor: 3_000n });
    await send(of(2_000, 0));
    expect(last()).toMatchObject({ t: "refund", order_id: "back-1", value_minor: 2_000n, currency: "MXN" });
    // Stripe may report one refund with two events.
    const { event_id: first } = last();
    await send(of(2_000, 0));
    expect(last().event_id).toBe(first);
  });

  test("the newest refund of the list says how much, where nothing says what was before", async () => {
    const refunds = {
      data: [
        { id: "re_2", amount: 700, reason: "duplicate" },
        { id: "re_1", amount: 300 },
      ],
    };
    await send(stripeEvent("charge.refunded", charge({ id: "ch_list", amount_refunded: 1_000, refunds })));
    expect(last()).toMatchObject({ t: "refund", value_minor: 700n });
    expect(JSON.parse(last().props)).toMatchObject({ reason: "duplicate", refund_id: "ch_list:1000" });
  });

  test("a dispute, which names no order, takes back the sale of its payment", async () => {
    await send(stripeEvent("charge.dispute.created", dispute({ id: "du_a", payment_intent: "pi_a", amount: 900 })));
    expect(last()).toMatchObject({ t: "refund", order_id: null, value_minor: 900n });
    expect(JSON.parse(last().props)).toMatchObject({ refunded_event_id: "stripe:pi_a", reason: "chargeback" });
  });

  test("an inquiry of a bank is no dispute yet", () =>
    withoutEffect(async () =>
      expect(await send(stripeEvent("charge.dispute.created", dispute({ status: "warning_needs_response" })))).toEqual({
        status: 200,
        body: { status: "ignored", event_id: null },
      }),
    ));
});

test.each(["customer.created", "payout.paid", "refund.created", "charge.dispute.closed", "__proto__", "constructor"])(
  "%s is nothing that counts here",
  (type) =>
    withoutEffect(async () =>
      expect(await send(stripeEvent(type, { id: "x" }))).toMatchObject({ status: 200, body: { status: "ignored" } }),
    ),
);

describe("a signature", () => {
  const event = () => stripeEvent("payment_intent.succeeded", newPayment().intent);
  const refused = (answer: Answer) => {
    expect(answer.status).toBe(401);
    expect(answer.body.detail).toBe("the signature is not that of the client's account at stripe, or is too old");
  };

  test("of another secret, of other bytes, of another form or none is refused, all the same way", () =>
    withoutEffect(async () => {
      const payload = event();
      const good = stripeHeader(payload, secret);
      refused(await send(payload, "whsec_other"));
      refused(await ask(path, `${payload} `, { "stripe-signature": good }));
      refused(await ask(path, payload.replace("129900", "129901"), { "stripe-signature": good }));
      for (const header of ["", "t=", "v1=00", good.replace("v1=", "v0="), good.slice(0, -1), `${good}0`, "t=1e9,v1=x"])
        refused(await ask(path, payload, { "stripe-signature": header }));
      refused(await ask(path, payload));
      refused(await ask(path, payload, { "x-signature": good, "x-svc-signature": good }));
    }));

  test("is good for 300 s in both directions, and for no second longer", async () => {
    for (const off of [-298_000, 298_000]) expect((await send(event(), secret, Date.now() + off)).status).toBe(200);
    await withoutEffect(async () => {
      for (const off of [-303_000, 303_000, -86_400_000]) refused(await send(event(), secret, Date.now() + off));
    });
  });

  test("may be one of several, as Stripe signs while a secret is rolled", async () => {
    const payload = event();
    const [time, mine] = stripeHeader(payload, secret).split(",");
    const [, other] = stripeHeader(payload, "whsec_former").split(",");
    expect((await ask(path, payload, { "stripe-signature": `${time},${other},${mine}` })).status).toBe(200);
  });

  test("is asked for before the body is read: what is no JSON is refused as unsigned", () =>
    withoutEffect(async () => refused(await ask(path, "{"))));
});

describe("an address", () => {
  test.each([
    ["/postback/paypaul?client_id=7", 404, "no such payment processor is known"],
    ["/postback/__proto__?client_id=7", 404, "no such payment processor is known"],
    ["/postback/stripe", 400, "client_id must be given once"],
    ["/postback/stripe?client_id=", 400, "client_id must be given once"],
    ["/postback/stripe?client_id=1e1", 400, "client_id must be given once"],
    ["/postback/stripe?client_id=7&client_id=7", 400, "client_id must be given once"],
    ["/postback/stripe?client_id[]=7", 400, "client_id must be given once"],
    ["/postback/stripe?client_id=9999999999", 400, "client_id must be given once"],
    ["/postback/stripe?client_id=123456", 404, "client_id names no client that is in use"],
  ])("%s is answered %i: %s", async (asked, status, says) => {
    const answer = await ask(asked, "{}");
    expect(answer.status).toBe(status);
    expect(answer.body.detail).toContain(says);
  });

  test("takes POST alone", async () => {
    const { status, headers } = await fetch(`http://127.0.0.1:${host.port}${path}`);
    expect([status, headers.get("allow")]).toEqual([405, "POST, OPTIONS"]);
  });
});

describe("what is signed and cannot be taken", () => {
  const wire = inMemoryWire([topics.eventsRaw]);
  const again = async (letter: (typeof host.letters)[number], metadata?: Readonly<Record<string, string>>) =>
    (await readmitted(
      {
        keyring: edgeKeyring,
        wire,
        clock: Date.now,
        facts: (id) => (id === clientId ? token() : undefined),
        moreFacts: {
          postback: postbackFactsOf({ settingsOf: async () => ({ secret, ...(metadata && { metadata }) }) }),
        },
      },
      letter as never,
      { root: "00000000-0000-8000-8000-000000000001", first: { topic: "s2s.dlq", partition: 0, offset: 1 } },
    ))!;

  test.each<[string, StripeObject, string]>([
    ["an order", { metadata: {} }, "data.object.metadata.order_id is missing"],
    ["metadata", { metadata: null }, "data.object.metadata.order_id is missing"],
    ["an amount", { amount_received: null }, "data.object.amount_received must be a whole number"],
    ["a whole amount", { amount_received: 10.5 }, "data.object.amount_received must be a whole number"],
    ["an amount of 0 or more", { amount_received: -1 }, "data.object.amount_received must be a whole number"],
    ["a plain amount", { amount_received: "1e5" }, "data.object.amount_received must be a whole number"],
    ["a currency", { currency: "credits" }, "data.object.currency is not an ISO 4217 currency"],
    ["whole kronur", { currency: "isk", amount_received: 550 }, "data.object.amount_received has more decimals"],
    ["a quantity", { metadata: { order_id: "o", quantity: "two" } }, "data.object.metadata.quantity must be a whole"],
    ["a flat order", { metadata: { order_id: { a: 1 } } }, "data.object.metadata.order_id must be a text"],
  ])("is refused by the name of its field: without %s", async (_, over, says) => {
    const payload = stripeEvent("payment_intent.succeeded", paymentIntent(over));
    const before = host.letters.length;
    const answer = await send(payload);
    expect(answer).toMatchObject({ status: 400, body: { code: "validation_failed" } });
    expect(answer.body.detail).toContain(says);
    expect(answer.body.errors[0].pointer).toBe(`/${says.split(" ")[0]!.replaceAll(".", "/")}`);
    const [letter] = host.letters.slice(before);
    expect(letter!.topic).toBe("s2s.dlq");
    expect(String(letter!.headers![letterHeaders.message])).toContain(says);
    expect(letter!.value!.toString()).toMatch(/^sealed:1:/);
  });

  test("is one dead letter, however often it comes", async () => {
    const payload = stripeEvent("payment_intent.succeeded", paymentIntent({ metadata: {} }));
    const before = host.letters.length;
    await send(payload);
    await send(payload);
    const roots = host.letters.slice(before).map(({ headers }) => String(headers![letterHeaders.letter]));
    expect(roots).toHaveLength(2);
    expect(new Set(roots).size).toBe(1);
  });

  test("comes back out of the dead letters as it came, by what is known then", async () => {
    const payload = stripeEvent("payment_intent.succeeded", paymentIntent({ id: "pi_late", metadata: {} }));
    await send(payload);
    // It is refused again, and stays a letter of the same root.
    const [still] = await again(host.letters.at(-1)!);
    expect(still!.topic).toBe("s2s.dlq");
    expect(String(still!.headers![letterHeaders.code])).toBe("missing_metadata");
  });

  test("comes back as a purchase once the settings name the shop's own keys", async () => {
    const metadata = { orderNumber: "own-1", sku: "lamp", quantity: "2" };
    const payload = stripeEvent("payment_intent.succeeded", paymentIntent({ id: "pi_own", metadata }));
    expect((await send(payload)).status).toBe(400);
    const keys = { order_id: "orderNumber", product_id: "sku" };
    const [record] = await again(host.letters.at(-1)!, keys);
    const { data } = wire.decode(topics.eventsRaw, record!.value, { topic: "events.raw", partition: 0, offset: 0 });
    expect(data).toMatchObject({
      order_id: "own-1",
      product_id: "lamp",
      quantity: 2,
      sender_event_id: "stripe:pi_own",
    });
    settings.set("stripe", { secret, metadata: keys });
    expect(await send(payload)).toMatchObject({ status: 200, body: { status: "accepted" } });
    expect(last()).toMatchObject({ order_id: "own-1", event_id: data.event_id });
    const wrong = await send(
      payload
        .replace("own-1", "own-2")
        .replace('"quantity":"2"', '"quantity":"x"')
        .replace(/"evt_[^"]*"/, '"evt_other"'),
    );
    expect(wrong.body.errors[0].pointer).toBe("/data/object/metadata/quantity");
    const without = stripeEvent("payment_intent.succeeded", paymentIntent({ metadata: { order_id: "not-read" } }));
    expect((await send(without)).body.errors[0].pointer).toBe("/data/object/metadata/orderNumber");
    settings.set("stripe", { secret });
  });

  test("bodies that are deep, large or no notice end no process, and leave nothing on Object", async () => {
    const deep = `${'{"a":'.repeat(40_000)}1${"}".repeat(40_000)}`;
    for (const body of [
      "",
      "null",
      "[]",
      '"x"',
      "{",
      "{}",
      deep,
      '{"id":"evt_1","type":"charge.succeeded","created":1e400}',
    ])
      expect((await send(body)).status, body.slice(0, 40)).toBe(400);
    const proto = stripeEvent("payment_intent.succeeded", paymentIntent()).replace('"object":{', '"__proto__":{');
    expect((await send(proto)).status).toBe(400);
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
    expect((await send(JSON.stringify({ text: "x".repeat(300_000) }))).status).toBe(413);
    expect((await send(stripeEvent("payment_intent.succeeded", newPayment().intent))).status).toBe(200);
  });
});

test("a payment with a click earns its partner, a refund takes back its share, a dispute the rest", async () => {
  const world = shop();
  const post = (event: string) => {
    const body = acceptsPostback(envelopeOf("stripe", clientId, Buffer.from(event)));
    const arrival = { receivedAt: noon, sender: "", address: null, header: () => undefined };
    const [admitted] = [...admitPostback(body, arrival, token())];
    if (admitted?.kind !== "accepted") throw new Error(admitted?.refusal.message);
    return world.send(topics.eventsRaw, { data: admitted.data, at: admitted.at, receivedAt: noon });
  };
  const created = Math.floor(noon / 1_000);
  const metadata = { order_id: "A-1", product_id: "lamp", quantity: "1", svc_click_id: clickBefore(hourMs) };
  const refunded = charge({ amount_refunded: 29_900, metadata });
  // The refund arrives before its payment.
  await post(stripeEvent("charge.refunded", refunded, { created, previous_attributes: { amount_refunded: 0 } }));
  expect(world.entries()).toEqual([]);
  await post(stripeEvent("payment_intent.succeeded", paymentIntent({ metadata }), { created }));
  expect(world.stored().at(-1)).toMatchObject({ credit: { status: "attributed", method: "click", partner_id: 21 } });
  const earned = () => world.entries().reduce((sum, { amount_minor }) => sum + amount_minor, 0n);
  expect(earned()).toBe(10_000n);
});

// POST /postback/adyen: the third payment provider, made with one file.
import { afterAll, describe, expect, test } from "vitest";
import { providerOf } from "../../../processors/admit/payments/providers.ts";
import { clientId, hourMs } from "../../support/builders.ts";
import { openEdgeHost } from "../../support/edge-host.ts";
import { adyenNotice, adyenTime, type Fields } from "../../support/processor-notices.ts";
import { clickBefore } from "../../support/shop.ts";

/** Key, item and signature of Adyen's own example. */
const key = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056";
const example = {
  ...{ pspReference: "7914073381342284", merchantAccountCode: "TestMerchant" },
  ...{ merchantReference: "TestPayment-1407325143704", amount: { value: 1_130, currency: "EUR" } },
  ...{ eventCode: "AUTHORISATION", success: "true", eventDate: "2014-08-06T17:15:34.121+02:00" },
  additionalData: { hmacSignature: "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0=" },
};

let secret: string | undefined = key;
let basic: string | undefined;
const host = await openEdgeHost(undefined, {
  processors: {
    settingsOf: async () => (secret === undefined ? undefined : { secret, ...(basic !== undefined && { basic }) }),
    renew: async () => undefined,
    dummy: "nothing",
  },
});
afterAll(() => host.close());
const send = async (body: string, more: Record<string, string> = {}) => {
  const path = `/postback/adyen?client_id=${clientId}`;
  const headers = { "content-type": "application/json", ...more };
  const answer = await fetch(`http://127.0.0.1:${host.port}${path}`, { method: "POST", headers, body });
  return { status: answer.status, body: (await answer.json()) as any };
};
const last = () => host.events.at(-1)!;
const withoutEffect = async (work: () => Promise<unknown>): Promise<void> => {
  const before = [host.events.length, host.letters.length];
  await work();
  expect([host.events.length, host.letters.length]).toEqual(before);
};

test("the example of Adyen's documents bears its signature", () => {
  const notice = { live: "false", notificationItems: [{ NotificationRequestItem: example }] };
  const ask = (body: unknown, under?: string) => {
    const request = { header: () => undefined, query: () => undefined, receivedAt: 0 };
    return providerOf("adyen")!.isSigned({ ...request, body: Buffer.from(JSON.stringify(body)) }, under, "nothing");
  };
  expect([ask(notice, key), ask(notice, key.toLowerCase()), ask(notice, key.replace("4", "5")), ask(notice)]).toEqual([
    ...[true, true, false, false],
  ]);
});

test("an authorisation is a purchase of the order that its signed reference names", async () => {
  const click = clickBefore(hourMs);
  const metadata = { order_id: "ad-1", svc_click_id: click, product_id: "lamp", quantity: "2" };
  expect(await send(adyenNotice("AUTHORISATION", {}, key, metadata))).toEqual({
    status: 200,
    body: { status: "accepted", event_id: "adyen:7914073381342284" },
  });
  expect(last()).toMatchObject({
    ...{ t: "purchase", source: "postback:adyen", order_id: "order-1", product_id: "lamp", quantity: 2 },
    ...{ click_id: null, value_minor: 1_130n, currency: "EUR", ts: Date.parse(adyenTime) },
  });
  await send(adyenNotice("AUTHORISATION", { pspReference: "ref" }, key));
  expect(last()).toMatchObject({ order_id: "order-1", sender_event_id: "adyen:ref" });
  await withoutEffect(async () => {
    expect((await send(adyenNotice("AUTHORISATION", { pspReference: "ref" }, key))).body.status).toBe("duplicate");
  });
});

test("a colon makes no second notice of a signed one", async () => {
  const text = adyenNotice("AUTHORISATION", { pspReference: "PSP701", merchantReference: "WEB:701" }, key);
  expect((await send(text)).status).toBe(200);
  const { live, notificationItems } = JSON.parse(text);
  const [{ NotificationRequestItem: item }] = notificationItems;
  // The same signed bytes, cut elsewhere.
  const cut = { pspReference: "PSP701:", originalReference: item.merchantAccountCode, merchantAccountCode: "WEB" };
  for (const over of [
    { ...cut, merchantReference: "701" },
    { pspReference: ["PSP701"] },
    { merchantReference: ["WEB:701"] },
  ])
    await withoutEffect(async () => {
      const items = [{ NotificationRequestItem: { ...item, ...over } }];
      expect((await send(JSON.stringify({ live, notificationItems: items }))).status).toBe(401);
    });
});

test("a refund and a chargeback, which name no order, take back the sale of their payment", async () => {
  const of = (code: string, reason: string) =>
    send(adyenNotice(code, { pspReference: code, originalReference: "paid", merchantReference: "r" }, key)).then(() => {
      expect(last()).toMatchObject({ t: "refund", order_id: null, sender_event_id: `adyen:${code}` });
      expect(JSON.parse(last().props)).toMatchObject({ refunded_event_id: "adyen:paid", reason });
    });
  await of("REFUND", "other");
  await of("CHARGEBACK", "chargeback");
});

test.each([
  ["JPY", 5_000, 5_000n],
  ["CLP", 1_299_000, 12_990n],
  ["KWD", 5_120, 5_120n],
  ["CVE", 50, 5_000n],
])("%s of %i minor units of Adyen is worth %s", async (currency, value, minor) => {
  await send(adyenNotice("AUTHORISATION", { pspReference: currency, amount: { currency, value } }, key));
  expect(last()).toMatchObject({ currency, value_minor: minor });
});

test.each<[string, Fields]>([
  ["AUTHORISATION", { success: "false" }],
  ["REFUND", { success: "false", originalReference: "x" }],
  ["CHARGEBACK_REVERSED", {}],
  ["NOTIFICATION_OF_CHARGEBACK", {}],
  ["REPORT_AVAILABLE", { amount: { currency: "EUR", value: 0 } }],
])("%s %o is nothing that counts", (code, over) =>
  withoutEffect(async () => expect((await send(adyenNotice(code, over, key))).body.status).toBe("ignored")),
);

describe("what is not signed so", () => {
  const good = adyenNotice("AUTHORISATION", {}, key);
  test.each([
    ["another amount", good.replace("1130", "1131")],
    ["another key", adyenNotice("AUTHORISATION", {}, key.replaceAll("4", "5"))],
    ["no signature", good.replace("hmacSignature", "signature")],
    ["a second item without one", good.replace("}]}", '},{"NotificationRequestItem":{}}]}')],
    ["no items", '{"live":"true","notificationItems":[]}'],
    ["no list", '{"notificationItems":{"0":{}}}'],
    ["a list of nothing", '{"notificationItems":[null]}'],
    ["no JSON", "{"],
  ])("is refused: %s", (_, body) =>
    withoutEffect(async () => {
      const { status, body: answer } = await send(body);
      expect(status).toBe(401);
      expect(answer.detail).toBe("the signature is not that of the client's account at adyen, or is too old");
    }),
  );

  test("nor is anything while the key that is saved is none", () =>
    withoutEffect(async () => {
      for (const bad of [undefined, "", "not hex", key.slice(1)]) {
        secret = bad;
        expect((await send(adyenNotice("AUTHORISATION", {}, ""))).status).toBe(401);
        expect((await send(good)).status).toBe(401);
      }
      secret = key;
    }));
});

test("what is signed and cannot be read is refused by its place", async () => {
  const amount = { currency: "XXQ", value: 5 };
  const { status, body } = await send(adyenNotice("AUTHORISATION", { amount }, key));
  expect([status, body.errors[0].pointer]).toEqual([
    ...[400, "/notificationItems/0/NotificationRequestItem/amount/currency"],
  ]);
});

describe("metadata, which Adyen does not sign,", () => {
  const click = clickBefore(hourMs);
  const metadata = { order_id: "another's", svc_click_id: click, did: "a device", product_id: "lamp" };
  let n = 0;
  const purchase = (over: Fields = {}) => {
    n += 1;
    return adyenNotice("AUTHORISATION", { pspReference: `meta-${n}`, ...over }, key, metadata);
  };
  const password = (text: string) => ({ authorization: `Basic ${Buffer.from(text).toString("base64")}` });

  test("describe goods, and give no credit", async () => {
    await send(purchase());
    const [sale] = [last()];
    expect(sale).toMatchObject({ order_id: "order-1", product_id: "lamp", click_id: null });
    await send(purchase({ merchantReference: "" }));
    expect(last()).toBe(sale);
    expect(host.letters.at(-1)!.headers).toBeDefined();
  });
  test("take back no sale of another payment", async () => {
    const refund = { pspReference: "meta-refund", originalReference: "paid" };
    await send(adyenNotice("REFUND", refund, key, metadata));
    expect(last().order_id).toBeNull();
    expect(JSON.parse(last().props)).toMatchObject({ refunded_event_id: "adyen:paid" });
  });
  test("count from a sender that bears the password of the account, too", async () => {
    basic = "tributary:a long password";
    await withoutEffect(async () => {
      for (const headers of [{}, password("tributary:another"), { authorization: "Bearer x" }])
        expect((await send(purchase(), headers)).status).toBe(401);
    });
    expect((await send(purchase(), password(basic))).status).toBe(200);
    expect(last()).toMatchObject({ order_id: "order-1", click_id: click });
    expect((await send(purchase({ merchantReference: "" }), password(basic))).status).toBe(200);
    expect(last()).toMatchObject({ order_id: "another's", click_id: click });
    basic = undefined;
  });
});

test("a notice of more than seven days ago is refused, and waits as a letter", async () => {
  const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString();
  const of = (days: number) =>
    send(adyenNotice("AUTHORISATION", { pspReference: `old-${days}`, eventDate: daysAgo(days) }, key));
  expect((await of(6.9)).status).toBe(200);
  const before = host.letters.length;
  const { status, body } = await of(7.1);
  expect([status, body.errors[0].code, host.letters.length]).toEqual([400, "notice_too_old", before + 1]);
});

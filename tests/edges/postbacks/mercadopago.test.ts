// POST /postback/mercadopago: a notice names a payment; its amount and its refunds are read from
// the account's own API.
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { Unavailable } from "../../../infra/runtime/errors.ts";
import type { ProviderSettings } from "../../../modules/intake/payment-notices/provider-settings.ts";
import { clientId, hourMs } from "../../support/builders.ts";
import { openEdgeHost } from "../../support/edge-host.ts";
import {
  type Fields,
  mercadopagoHeaders,
  mercadopagoNotice,
  mercadopagoPayment,
} from "../../support/processor-notices.ts";
import { clickBefore } from "../../support/shop.ts";

const secret = "c0ffee5d1e7f4a2b9c8d7e6f5a4b3c2d";
const token = "APP_USR-token";
let saved: ProviderSettings | undefined = { secret, access_token: token };
let api = new Map<string, Fields>();
const asked: string[] = [];
const host = await openEdgeHost(undefined, {
  processors: { settingsOf: async () => saved, renew: async () => undefined, dummy: "nothing" },
  lookUp: async (path, given) => {
    asked.push(`${path} ${given}`);
    const found = api.get(path);
    if (found === undefined) throw new Unavailable("api.mercadopago.com does not say what was paid", 30);
    return found;
  },
});
afterAll(() => host.close());
beforeEach(() => {
  saved = { secret, access_token: token };
  api = new Map();
  asked.length = 0;
});

const send = async (id: string, body: string, headers = mercadopagoHeaders(id, secret), query = `&data.id=${id}`) => {
  const answer = await fetch(`http://127.0.0.1:${host.port}/postback/mercadopago?client_id=${clientId}${query}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body,
  });
  return { status: answer.status, retry: answer.headers.get("retry-after"), body: (await answer.json()) as any };
};
const address = (id: number): string => `/v1/payments/${id}`;
/** The payment as the API returns it, and a notice that only names it. */
let payments = 1_000_000;
const notified = async (over: Fields) => {
  payments += 1;
  const id = payments;
  api.set(address(id), mercadopagoPayment(id, over));
  return { id, answer: await send(String(id), mercadopagoNotice(id)) };
};
const last = () => host.events.at(-1)!;
const withoutEffect = async (work: () => Promise<unknown>): Promise<void> => {
  const before = [host.events.length, host.letters.length];
  await work();
  expect([host.events.length, host.letters.length]).toEqual(before);
};

describe("a payment that was approved", () => {
  test("is looked up with the token of the account, and is the purchase that its metadata name", async () => {
    const click = clickBefore(hourMs);
    const metadata = { order_id: "mp-1", svc_click_id: click, product_id: "lamp", quantity: 2 };
    const { id, answer } = await notified({ metadata });
    expect(answer).toMatchObject({ status: 200, body: { status: "accepted", event_id: `mercadopago:${id}` } });
    expect(asked).toEqual([`${address(id)} ${token}`]);
    expect(last()).toMatchObject({
      ...{ t: "purchase", source: "postback:mercadopago", order_id: "mp-1", product_id: "lamp", quantity: 2 },
      ...{ click_id: click, value_minor: 129_950n, currency: "MXN", ts: Date.parse("2026-05-25T16:01:08Z") },
    });
  });

  test.each([
    ["MXN", 1_299.5, 129_950n],
    ["MXN", 0.1, 10n],
    ["MXN", "99.90", 9_990n],
    ["CLP", 12_990, 12_990n],
    ["ARS", 100_000.01, 10_000_001n],
  ])("in %s of %s is worth %s minor units: amounts are decimals", async (currency_id, transaction_amount, minor) => {
    const { answer } = await notified({ currency_id, transaction_amount, metadata: { order_id: "amount" } });
    expect(answer.status).toBe(200);
    expect(last()).toMatchObject({ value_minor: minor, currency: currency_id });
  });

  test.each<[string, Fields, string]>([
    ["an order", { metadata: {} }, "data.metadata.order_id is missing"],
    ["metadata", { metadata: null }, "data.metadata.order_id is missing"],
    ["a whole number of goods", { metadata: { order_id: "q", quantity: "few" } }, "data.metadata.quantity must be"],
    ["an amount", { transaction_amount: null }, "data.transaction_amount must be a decimal"],
    ["cents that its currency has", { transaction_amount: 1.005 }, "data.transaction_amount has more decimals"],
    ["a time", { date_approved: null, date_created: null }, "data.date_created must be a time"],
    ["a currency", { currency_id: "PESO" }, "data.currency_id is not an ISO 4217 currency"],
  ])("without %s is refused by its place, and kept with what was looked up", async (_, over, says) => {
    const before = host.letters.length;
    const { answer } = await notified(over);
    expect([answer.status, answer.body.detail]).toEqual([400, expect.stringContaining(says)]);
    expect(host.letters).toHaveLength(before + 1);
    expect(host.letters.at(-1)).toMatchObject({ topic: "s2s.dlq" });
  });

  test("without a time of its approval was paid when it was made", async () => {
    await notified({ date_approved: null, metadata: { order_id: "time" } });
    expect(last()).toMatchObject({ order_id: "time", ts: Date.parse("2026-05-25T16:01:02Z") });
  });

  test("that is reported again is a duplicate, and by a later notice the same event", async () => {
    const { id } = await notified({ metadata: { order_id: "again" } });
    const notice = mercadopagoNotice(id);
    expect((await send(String(id), notice)).body.status).toBe("accepted");
    const [first, second] = host.events.slice(-2);
    expect(second!.event_id).toBe(first!.event_id);
    await withoutEffect(async () => expect((await send(String(id), notice)).body.status).toBe("duplicate"));
  });

  test("is not lost when a notice of another payment came first with the id of its notice", async () => {
    const notice = JSON.parse(mercadopagoNotice(0)).id;
    for (const order_id of ["first", "second"]) {
      payments += 1;
      api.set(address(payments), mercadopagoPayment(payments, { metadata: { order_id } }));
      const answer = await send(String(payments), mercadopagoNotice(payments, {}, { id: notice }));
      expect([answer.body.status, last().order_id]).toEqual(["accepted", order_id]);
    }
  });
});

describe("money that went back", () => {
  const metadata = { order_id: "back", product_id: "lamp" };
  const refund = (id: number, amount: number, over: Fields = {}) => ({
    ...{ id, payment_id: 1, amount, status: "approved", date_created: "2026-05-26T10:00:00.000-03:00", ...over },
  });

  test("in part leaves the payment approved: its notice is the purchase and each refund, by their ids", async () => {
    const before = host.events.length;
    const refunds = [refund(11, 100), refund(12, 50.25), refund(13, 7, { status: "in_process" })];
    const { id, answer } = await notified({ metadata, refunds, transaction_amount_refunded: 150.25 });
    expect(answer.body).toEqual({ status: "accepted", event_id: `mercadopago:${id}` });
    expect(host.events.slice(before).map((one) => [one.t, one.sender_event_id, one.value_minor])).toEqual([
      ["purchase", `mercadopago:${id}`, 129_950n],
      ["refund", "mercadopago:11", 10_000n],
      ["refund", "mercadopago:12", 5_025n],
    ]);
    expect(last()).toMatchObject({ order_id: "back", product_id: "lamp", ts: Date.parse("2026-05-26T13:00:00Z") });
  });

  test("in whole is a refund of its order, also before the payment was ever reported", async () => {
    const { answer } = await notified({ status: "refunded", metadata, refunds: [refund(21, 1_299.5)] });
    expect(answer.body.status).toBe("accepted");
    expect(last()).toMatchObject({ t: "refund", order_id: "back", value_minor: 129_950n });
    const { id } = await notified({ status: "refunded", transaction_amount_refunded: null, metadata: {} });
    expect(JSON.parse(last().props)).toMatchObject({ refunded_event_id: `mercadopago:${id}`, amount: "1299.50" });
  });

  test("by a chargeback is what was not refunded before; one that the shop has won is nothing", async () => {
    const over = { metadata, transaction_amount_refunded: 99.5, refunds: [refund(31, 99.5)] };
    const { id } = await notified({ ...over, status: "charged_back", status_detail: "settled" });
    expect(last()).toMatchObject({
      t: "refund",
      sender_event_id: `mercadopago:${id}:charged_back`,
      value_minor: 120_000n,
    });
    expect(JSON.parse(last().props)).toMatchObject({ reason: "chargeback" });
    await withoutEffect(async () => {
      const won = await notified({ metadata, status: "charged_back", status_detail: "reimbursed" });
      expect(won.answer.body).toEqual({ status: "ignored", event_id: null });
    });
  });
});

test.each(["pending", "in_process", "rejected", "cancelled", "in_mediation"])(
  "a payment that is %s is nothing that counts yet",
  (status) => withoutEffect(async () => expect((await notified({ status })).answer.body.status).toBe("ignored")),
);

test("a notice of something else is ignored, and nothing is asked", () =>
  withoutEffect(async () => {
    for (const type of ["order", "topic_chargebacks_wh", "plan", "__proto__"]) {
      const id = "ORD01JV3AW3NFSTSTB669F41NACDX";
      const answer = await send(id, mercadopagoNotice(id, {}, { type }), mercadopagoHeaders(id.toLowerCase(), secret));
      expect(answer).toMatchObject({ status: 200, body: { status: "ignored" } });
      expect((await send(id, mercadopagoNotice(id, {}, { type }))).status).toBe(200);
    }
    expect(asked).toEqual([]);
  }));

test("a notice that says the payment itself gets what the API says: its signature covers only the id", async () => {
  const id = 5_000;
  const real = { status: "refunded", transaction_amount_refunded: null, metadata: { order_id: "real" } };
  api.set(address(id), mercadopagoPayment(id, real));
  const metadata = { order_id: "claimed", did: "claimed", svc_click_id: clickBefore(hourMs) };
  const { id: _, ...claimed } = mercadopagoPayment(id, {
    ...{ currency_id: "ARS", transaction_amount: 9_999_999, date_approved: "2026-01-01T00:00:00.000Z", metadata },
  });
  const before = host.events.length;
  const answer = await send(String(id), mercadopagoNotice(id, claimed, { date_created: "2026-01-01T00:00:00.000Z" }));
  expect(answer).toMatchObject({ status: 200, body: { status: "accepted" } });
  expect(asked).toEqual([`${address(id)} ${token}`]);
  expect(host.events.slice(before)).toMatchObject([
    { t: "refund", order_id: "real", value_minor: 129_950n, currency: "MXN", ts: Date.parse("2026-05-26T13:00:00Z") },
  ]);
  expect(last().click_id).toBeNull();
  expect(Object.values(last()).map(String).join()).not.toContain("claimed");
});

test("a notice of a payment whose id is no number is refused, whatever it says: nothing can be looked up", async () => {
  const id = "ORD01JV3AW3NFSTSTB669F41NACDX";
  const before = host.events.length;
  const { id: _, ...claimed } = mercadopagoPayment(5_001, { metadata: { order_id: "claimed" } });
  const answer = await send(id, mercadopagoNotice(id, claimed));
  expect([answer.status, answer.body.detail]).toEqual([400, "data.id must be the number of a payment"]);
  expect([host.events.length, asked]).toEqual([before, []]);
});

test("while the API does not answer, or no token is saved, the notice is to be sent again, and nothing is stored", () =>
  withoutEffect(async () => {
    expect(await send("6001", mercadopagoNotice(6_001))).toMatchObject({ status: 503, retry: "30" });
    saved = { secret };
    const { id: _, ...claimed } = mercadopagoPayment(6_001, { metadata: { order_id: "claimed" } });
    for (const data of [{}, { status: "pending" }, claimed]) {
      const answer = await send("6001", mercadopagoNotice(6_001, data));
      expect(answer).toMatchObject({ status: 503, retry: "600" });
      expect(answer.body.detail).toContain("save the access token");
    }
    expect(asked).toHaveLength(1);
  }));

describe("a signature", () => {
  const id = "7001";
  const refused = (answer: { readonly status: number; readonly body: any }) => {
    expect(answer.status).toBe(401);
    expect(answer.body.detail).toBe("the signature is not that of the client's account at mercadopago, or is too old");
  };
  beforeEach(() => void api.set(address(7_001), mercadopagoPayment(7_001, { metadata: { order_id: "signed" } })));

  test("of another secret, id, request, time, form or none is refused, all the same way, and nothing is asked", () =>
    withoutEffect(async () => {
      const good = mercadopagoHeaders(id, secret);
      const signature = good["x-signature"]!;
      refused(await send(id, mercadopagoNotice(id), mercadopagoHeaders(id, "other")));
      refused(await send(id, mercadopagoNotice(id), mercadopagoHeaders("7002", secret)));
      refused(await send(id, mercadopagoNotice(id), { ...good, "x-request-id": "another" }));
      refused(await send(id, mercadopagoNotice(id), { "x-signature": signature }));
      for (const text of ["", "ts=", "v1=00", signature.slice(0, -1), `${signature}0`, signature.replace("v1=", "v2=")])
        refused(await send(id, mercadopagoNotice(id), { ...good, "x-signature": text }));
      refused(await send(id, mercadopagoNotice(id), {}));
      // The signature belongs to one payment, the body to another.
      refused(await send(id, mercadopagoNotice("7002"), good));
      refused(await send(id, mercadopagoNotice("7002"), good, "&data.id=7001"));
      refused(await send(id, "{", good));
      refused(await send(id, "[]", good));
      saved = undefined;
      refused(await send(id, mercadopagoNotice(id), good));
      expect(asked).toEqual([]);
    }));

  test("is good for 300 s in both directions, in milliseconds and in seconds", async () => {
    for (const off of [-298_000, 298_000])
      expect(
        (await send(id, mercadopagoNotice(id), mercadopagoHeaders(id, secret, { at: Date.now() + off }))).status,
      ).toBe(200);
    const at = Math.floor(Date.now() / 1_000);
    expect((await send(id, mercadopagoNotice(id), mercadopagoHeaders(id, secret, { at }))).status).toBe(200);
    await withoutEffect(async () => {
      for (const off of [-303_000, 303_000])
        refused(await send(id, mercadopagoNotice(id), mercadopagoHeaders(id, secret, { at: Date.now() + off })));
    });
  });

  test("is over the id of the body where the address has none", async () => {
    expect((await send(id, mercadopagoNotice(id), mercadopagoHeaders(id, secret), "")).status).toBe(200);
  });
});

// What each door takes from the quota of its client, and what a sender is answered when it is
// spent. The count itself is in tests/contracts/quotas.test.ts.
import { createHmac } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Quotas, Spending } from "../../modules/intake/quotas/quotas.ts";
import { clientId, noon, referenceWith } from "../support/builders.ts";
import { openEdgeHost } from "../support/edge-host.ts";
import { knownSources } from "../support/known-sources.ts";
import { browser, openLinkHost } from "../support/link-host.ts";
import { openPixelHost, type PixelWorld } from "../support/pixel-host.ts";
import { paymentIntent, stripeEvent, stripeHeader } from "../support/stripe-notices.ts";

let spent: Spending[] = [];
let room: (spending: Spending) => boolean = () => true;
const spend: Quotas["spend"] = (spending) => {
  spent.push(spending);
  return room(spending);
};
const closing: (() => Promise<unknown>)[] = [];
beforeEach(() => {
  spent = [];
  room = () => true;
});
afterEach(() => Promise.all(closing.splice(0).map((close) => close())));
/** The state in which only what moves money is taken. */
const moneyAlone = ({ movesMoney }: Spending): boolean => movesMoney;

const openPixel = async (world: PixelWorld = {}) => {
  const host = await openPixelHost({ spend, ...world });
  closing.push(host.close);
  const post = async (path: string, body: object) => {
    const answer = await fetch(`${host.url}${path}`, { method: "POST", body: JSON.stringify(body) });
    const text = await answer.text();
    return {
      status: answer.status,
      retry: answer.headers.get("retry-after"),
      body: text === "" ? null : JSON.parse(text),
    };
  };
  return { host, post };
};
const view = { t: "page_view", url: "https://shop.example/a" };
const sale = { t: "purchase", props: { order_id: "o-1", revenue: "10.00", product_id: "lamp", quantity: 1 } };
const body = (...events: readonly object[]) => ({
  ...{ cid: 7, did: "visitor-1" },
  events: events.map((event) => ({ ts: Date.now(), ...event })),
});

describe("the pixel", () => {
  test("takes its events and bytes from what anyone may send of the client", async () => {
    const { post } = await openPixel();
    const sent = body(view, view);
    await post("/e", sent);
    const bytes = JSON.stringify(sent).length;
    expect(spent).toEqual([{ clientId: 7, side: "open", events: 2, bytes, movesMoney: false }]);
  });

  test("refuses page views before purchases: 429 with the reason, and nothing is stored", async () => {
    const { host, post } = await openPixel();
    room = moneyAlone;
    const refused = await post("/e", body(view));
    expect(refused).toMatchObject({ status: 429, retry: "5", body: { code: "quota_spent" } });
    expect(refused.body.detail).toContain("kept for purchases");
    expect(host.seen).toMatchObject([{ client_id: 7, code: "quota_spent", count: 1 }]);
    expect(host.events).toHaveLength(0);
    expect((await post("/e", body(view, sale))).status).toBe(204);
    expect(host.events.map(({ t }) => t)).toEqual(["page_view", "purchase"]);
  });

  test("answers an image with the image, of status 429, and a recording with 429", async () => {
    const { host, post } = await openPixel({ settings: { replay_enabled: true, replay_sample_rate: 100 } });
    room = moneyAlone;
    const image = await fetch(`${host.url}/e?t=page_view&cid=7&url=https%3A%2F%2Fshop.example%2F`);
    expect([image.status, image.headers.get("content-type")]).toEqual([429, "image/gif"]);
    expect([image.headers.get("retry-after"), (await image.arrayBuffer()).byteLength]).toEqual(["5", 43]);
    const event = {
      type: 4,
      timestamp: 1_700_000_000_000,
      data: { href: "https://shop.example/", width: 9, height: 9 },
    };
    const chunk = { did: "visitor-1", sid: "session-0001", page: "0123456789abcdef", seq: 0, consent: 0xff };
    const recorded = await post("/replay", { cid: 7, ...chunk, events: [event] });
    expect(recorded).toMatchObject({ status: 429, body: { code: "quota_spent" } });
    expect([host.events, host.recorded]).toEqual([[], []]);
  });

  test("counts letters without a known client for strangers together, beyond the samples", async () => {
    const { host, post } = await openPixel();
    await post("/e", { ...body(view), cid: 999 });
    expect(spent).toMatchObject([{ clientId: 0, side: "open", events: 1 }]);
    room = () => false;
    expect(await post("/e", { ...body(view), cid: 999 })).toMatchObject({ status: 429, body: { code: "quota_spent" } });
    expect(host.letters).toHaveLength(1);
  });
});

test("a visitor of a link reaches the shop with the click id, recorded or not", async () => {
  const host = await openLinkHost({ reference: () => referenceWith({}), clock: () => noon, spend });
  closing.push(host.close);
  const visit = () => fetch(`${host.url}/c/promo`, { redirect: "manual", headers: { "user-agent": browser } });
  expect((await visit()).status).toBe(302);
  room = () => false;
  const answer = await visit();
  expect([answer.status, new URL(answer.headers.get("location")!).searchParams.has("svc_click_id")]).toEqual([
    302,
    true,
  ]);
  expect(spent).toMatchObject([{ clientId, side: "open", movesMoney: true }, { clientId }]);
  expect(host.stored).toHaveLength(1);
});

test("a visit of a link counts with all that is stored of it: address, referrer and browser", async () => {
  const host = await openLinkHost({ reference: () => referenceWith({}), clock: () => noon, spend });
  closing.push(host.close);
  const headers = { "user-agent": "u".repeat(900), referer: `https://pages.example/${"r".repeat(6_000)}` };
  const query = `utm_source=${"s".repeat(50)}`;
  await fetch(`${host.url}/c/promo?${query}`, { redirect: "manual", headers });
  const shown = new URL(host.url).host.length + "/c/promo".length + query.length + 900 + headers.referer.length;
  expect(spent).toMatchObject([{ events: 1, bytes: shown }]);
  const { ua, ref } = host.stored[0]!;
  expect([ua?.length, ref?.length]).toEqual([900, headers.referer.length]);
});

describe("the ingest host", () => {
  const secret = "whsec_c2VjcmV0IG9mIGEgc291cmNlLCAyNCBieXRlcw==";
  const mapping = {
    mapping: { event_name: "event", dedup_key: "id", value: "amount" },
    constants: {},
    event_names: {},
  };
  const open = async (given: object, parts: Parameters<typeof openEdgeHost>[1] = {}) => {
    const sources = knownSources([{ source_id: 1, mapping, ...given }]);
    const host = await openEdgeHost(undefined, { sources, quotas: { spend }, ...parts });
    closing.push(host.close);
    return async (path: string, text: string, headers: Record<string, string> = {}) => {
      const init = { method: "POST", body: text, headers: { "content-type": "application/json", ...headers } };
      const answer = await fetch(`http://127.0.0.1:${host.port}${path}`, init);
      return { status: answer.status, code: ((await answer.json()) as { code?: string }).code };
    };
  };
  const payload = JSON.stringify({ event: "purchase", id: "T-1", amount: "12.50" });
  const generic = `/postback/generic?client_id=${clientId}`;

  test("counts a payload without a signature with strangers of the client, and a signed one apart", async () => {
    const unsigned = await open({});
    await unsigned(generic, payload);
    const signed = await open({ secret });
    const signature = createHmac("sha256", Buffer.from(secret.slice(6), "base64"))
      .update(payload)
      .digest("hex");
    expect((await signed(generic, payload, { "x-svc-signature": signature })).status).toBe(200);
    expect(spent).toMatchObject([
      { clientId, side: "open", events: 1, bytes: payload.length },
      { clientId, side: "signed", events: 1, movesMoney: true },
    ]);
    room = () => false;
    expect(await unsigned(generic, payload)).toEqual({ status: 429, code: "quota_spent" });
  });

  test("counts a notice of a payment on the signed side, once its signature is good", async () => {
    const settingsOf = async () => ({ secret });
    const send = await open({}, { processors: { settingsOf, renew: async () => undefined, dummy: "0" } });
    const notice = stripeEvent(
      "payment_intent.succeeded",
      paymentIntent({ id: "pi_1", metadata: { order_id: "o-1" } }),
    );
    const path = `/postback/stripe?client_id=${clientId}`;
    expect((await send(path, notice)).status).toBe(401);
    expect(spent).toEqual([]);
    room = () => false;
    const signature = { "stripe-signature": stripeHeader(notice, secret, Date.now()) };
    expect(await send(path, notice, signature)).toEqual({ status: 429, code: "quota_spent" });
    expect(spent).toMatchObject([{ clientId, side: "signed", movesMoney: true }]);
  });

  test("counts a batch whose token stands in pages, and none whose token is a server's", async () => {
    const token = { token_id: 1, kind: "ingest" as const, client_id: clientId, partner_id: null, client_ids: null };
    const batch = JSON.stringify({ events: [{ ...view, ts: Date.now(), event_id: "e-1" }] });
    for (const client_side of [false, true]) {
      const authenticate = async () => ({ ...token, client_side, requests_a_minute: 100 });
      const send = await open({}, { authenticate });
      room = moneyAlone;
      expect((await send("/ingest/batch", batch)).status).toBe(client_side ? 429 : 200);
    }
    expect(spent).toEqual([{ clientId, side: "open", events: 1, bytes: batch.length, movesMoney: false }]);
  });
});

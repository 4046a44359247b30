// A credential opens its door from the answer that shows it on, and what took its place opens
// nothing more.
import { createHmac } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { transaction } from "../../infra/postgres/sql.ts";
import { keyringOf } from "../../infra/runtime/keyring.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { saveProvider } from "../../modules/intake/payment-notices/provider-settings.ts";
import { apiSuite } from "../support/api-suite.ts";
import { type RunningIngest, startIngest } from "../support/ingest.ts";

const { env, demo, pool, send, fresh } = apiSuite();
const own = demo.clients[0].id as number;
let ingest: RunningIngest;
beforeAll(async () => {
  ingest = await startIngest(env);
  await ingest.ready();
});
afterAll(() => ingest.close());

const made = async (method: string, path: string, body: object = {}) => {
  const answer = await send(method, path, body);
  expect(answer.status, answer.text).toBeLessThan(300);
  return answer.body;
};
const at = async (path: string, init: RequestInit): Promise<number> => {
  const answer = await fetch(`${ingest.url}${path}`, init);
  await answer.text();
  return answer.status;
};
const json = { "content-type": "application/json" };
const bearer = (token: string) => ({ ...json, authorization: `Bearer ${token}` });

const page = { t: "page_view", did: "device-1", props: { url: "https://shop.example/" } };
const batch = (token: string, cid: number) =>
  at("/ingest/batch", {
    method: "POST",
    headers: bearer(token),
    body: JSON.stringify({ events: [{ ...page, cid, ts: Date.now() }] }),
  });
const payload = () => JSON.stringify({ event: "install", id: fresh("p") });
const source = async (more: object = {}) => {
  const slug = fresh("net");
  const settings = { client_id: own, slug, name: "A network", kind: "postback_network", ...more };
  const { id } = await made("POST", "/api/sources", { ...settings, mapping: { event_name: "event", dedup_key: "id" } });
  return { id, slug };
};
const dead = (what: string, ask: () => Promise<number>) =>
  until(`${what} is dead`, 1_000, async () => expect(await ask()).toBe(401));

describe("opens its door at once:", () => {
  // Each is tried often, for the pictures of the edge are renewed twice a second by themselves.
  const TIMES = 6;
  test("an ingest token", async () => {
    for (let n = 0; n < TIMES; n += 1) {
      const { id, token } = await made("POST", "/api/tokens", { kind: "ingest", client_id: own });
      expect(await batch(token, own)).toBe(200);
      await send("DELETE", `/api/tokens/${id}`);
      await dead("the token", () => batch(token, own));
    }
  });

  test("the token of a client that was onboarded just now", async () => {
    const { client, ingest_token } = await made("POST", "/api/clients/onboard", {
      client: { name: "New", slug: fresh("new") },
    });
    expect(await batch(ingest_token, client.id)).toBe(200);
  });

  test("the upload token of a partner that was made just now, and one that takes its place", async () => {
    const { id } = await made("POST", "/api/partners", {
      ...{ name: "New", email: `${fresh("n")}@partner.example`, client_ids: [own] },
    });
    const upload = (token: string) =>
      at(`/upload/${own}/${id}/sales.csv`, { method: "PUT", headers: bearer(token), body: "order_id,revenue\n" });
    const rotated = async () => (await made("POST", `/api/partners/${id}/upload-credentials/rotate`)).upload_token;
    const first = await rotated();
    expect(await upload(first)).toBe(201);
    const second = await rotated();
    expect(await upload(second)).toBe(201);
    await dead("the first token", () => upload(first));
  });

  test("the key of a source, and one that takes its place", async () => {
    const { id } = await source();
    const call = (url: string) => at(url, { method: "POST", headers: json, body: payload() });
    const rotated = async () => (await made("POST", `/api/sources/${id}/rotate-key`)).url;
    let before = await rotated();
    await made("PATCH", `/api/sources/${id}`, { state: "active" });
    expect(await call(before)).toBe(200);
    for (let n = 0; n < TIMES; n += 1) {
      const url = await rotated();
      expect(await call(url)).toBe(200);
      expect(await call(before)).toBe(401);
      before = url;
    }
  });

  test("the secret of a source, and one that takes its place", async () => {
    const secretOf = (n: number) => `a secret of a source, number ${n}`;
    const { id, slug } = await source({ kind: "generic", secret: secretOf(0) });
    await made("PATCH", `/api/sources/${id}`, { state: "active" });
    const signed = (n: number) => {
      const body = payload();
      const mac = createHmac("sha256", secretOf(n)).update(body).digest("hex");
      const headers = { ...json, "x-svc-signature": mac };
      return at(`/postback/generic?client_id=${own}&source=${slug}`, { method: "POST", headers, body });
    };
    expect(await signed(0)).toBe(200);
    for (let n = 1; n <= TIMES; n += 1) {
      await made("PATCH", `/api/sources/${id}`, { secret: secretOf(n) });
      expect(await signed(n)).toBe(200);
      expect(await signed(n - 1)).toBe(401);
    }
  });

  test("the secret of a payment provider, and one that takes its place", async () => {
    const save = (secret: string) =>
      transaction(pool, [own], (tx) =>
        saveProvider(tx, { clientId: own, processor: "stripe" }, { secret }, keyringOf(env.TRIBUTARY_SECRET!)),
      );
    const notice = (secret: string) => {
      const t = Math.floor(Date.now() / 1_000);
      const body = JSON.stringify({ id: fresh("evt"), type: "customer.created", created: t, data: { object: {} } });
      const mac = createHmac("sha256", secret).update(`${t}.${body}`).digest("hex");
      const headers = { ...json, "stripe-signature": `t=${t},v1=${mac}` };
      return at(`/postback/stripe?client_id=${own}`, { method: "POST", headers, body });
    };
    await save("whsec_0");
    expect(await notice("whsec_0")).toBe(200);
    for (let n = 1; n <= TIMES; n += 1) {
      await save(`whsec_${n}`);
      expect(await notice(`whsec_${n}`)).toBe(200);
      await dead("the secret before", () => notice(`whsec_${n - 1}`));
    }
  });
});

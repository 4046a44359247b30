// While Postgres is away or hangs, an edge cannot know whether a token, key, client or source was
// made a second ago. It asks the sender to come again, for senders do not repeat what was refused.
import { createHmac, randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { newToken } from "../../modules/access/tokens/tokens.ts";
import { openProxy, type TcpProxy } from "../../tools/chaos/stage/proxy.ts";
import type { Weather } from "../../tools/chaos/stage/weather.ts";
import { newTokens, type RunningIngest, startIngest } from "../support/ingest.ts";
import { sharedStack } from "../support/shared-stack.ts";

const stack = sharedStack();
const { env, demo } = stack;
const own = demo.clients[0].id as number;
const { network, webhook } = demo as Record<string, { slug: string; id: string; key: string; client_id: number }>;
let postgres: TcpProxy;
let ingest: RunningIngest;
let known: string;
beforeAll(async () => {
  const url = new URL(env.POSTGRES_URL!);
  const port = Number(url.port);
  postgres = await openProxy(() => port, Math.random);
  url.port = String(postgres.port);
  known = (await newTokens(stack, own, 1))[0]!.token;
  ingest = await startIngest({ ...env, POSTGRES_URL: url.href });
  await ingest.ready();
});
afterAll(async () => {
  postgres.weather({});
  await ingest.close();
  await postgres.close();
});

const page = { t: "page_view", did: "device-1", cid: own, props: { url: "https://shop.example/" } };
const json = { "content-type": "application/json" };
const post = async (path: string, body: object, headers: Readonly<Record<string, string>> = {}) => {
  const answer = await fetch(`${ingest.url}${path}`, {
    method: "POST",
    headers: { ...json, ...headers },
    body: JSON.stringify(body),
  });
  await answer.text();
  return { status: answer.status, comeAgain: answer.headers.get("retry-after") };
};
const batch = (token: string) =>
  post("/ingest/batch", { events: [{ ...page, ts: Date.now() }] }, { authorization: `Bearer ${token}` });
const payload = { event: "install", id: "1" };
const signed = (text: string) => ({ "x-svc-signature": createHmac("sha256", "another").update(text).digest("hex") });

/** What may have been made a second ago, and the status of it while Postgres is well. */
const unknown: readonly (readonly [string, number, () => Promise<{ status: number; comeAgain: string | null }>])[] = [
  ["a token", 401, () => batch(newToken("ingest"))],
  ["a client of a payment provider", 404, () => post("/postback/stripe?client_id=999999", payload)],
  ["a client of a source", 404, () => post("/postback/generic?client_id=999999", payload)],
  ["a source", 404, () => post(`/postback/generic?client_id=${own}&source=none`, payload)],
  [
    "a key of a source",
    401,
    () => post(`/postback/external/${network!.id}?key=${randomBytes(32).toString("base64url")}`, payload),
  ],
];
const malformed: readonly (readonly [string, () => Promise<{ status: number }>])[] = [
  ["a token of no form of ours", () => batch("trb_ingest_short")],
  ["no token", () => post("/ingest/batch", { events: [page] })],
  ["a key of no form of ours", () => post(`/postback/external/${network!.id}?key=short`, payload)],
];

test.each(unknown)("%s that is unknown is refused while Postgres is well", async (_, status, ask) => {
  expect((await ask()).status).toBe(status);
});

describe.each<[string, Weather]>([
  ["refuses connections", { refuses: true }],
  ["hangs", { blackhole: true }],
])("while Postgres %s,", (_, weather) => {
  beforeAll(() => {
    postgres.weather(weather);
    if (weather.refuses) postgres.reset();
  });
  afterAll(async () => {
    postgres.weather({});
    postgres.reset();
    await until("Postgres is known to be back", 30_000, async () =>
      expect((await batch(newToken("ingest"))).status).toBe(401),
    );
  });
  test.each(unknown)("%s that is unknown may come again", async (_, _status, ask) => {
    const { status, comeAgain } = await ask();
    expect(status).toBe(503);
    expect(Number(comeAgain)).toBeGreaterThan(0);
  });
  test("a signature of a source that does not fit may come again, and none is refused", async () => {
    const path = `/postback/generic?client_id=${webhook!.client_id}&source=${webhook!.slug}`;
    expect((await post(path, payload, signed(JSON.stringify(payload)))).status).toBe(503);
    expect((await post(path, payload)).status).toBe(401);
  });
  test.each(malformed)("%s is refused at once", async (_, ask) => {
    const began = performance.now();
    expect((await ask()).status).toBe(401);
    expect(performance.now() - began).toBeLessThan(900);
  });
  test("a known token goes on", async () => expect((await batch(known)).status).toBe(200));
  test("a flood of invented tokens asks no more than is known to be in vain", async () => {
    const began = performance.now();
    const flood = await Promise.all(Array.from({ length: 200 }, () => batch(newToken("ingest"))));
    expect(new Set(flood.map(({ status }) => status))).toEqual(new Set([503]));
    expect(performance.now() - began).toBeLessThan(5_000);
    expect((await batch(known)).status).toBe(200);
  });
});

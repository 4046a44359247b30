// A notice of a payment makes a request to the provider's API, over real connections.
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, expect, test } from "vitest";
import { getOutbound } from "../../../infra/outbound/outbound.ts";
import { MERCADOPAGO } from "../../../infra/runtime/environment.ts";
import { openLookUp } from "../../../modules/intake/payment-notices/look-up.ts";
import { closedPort } from "../../support/closed-port.ts";

let answer: (request: IncomingMessage, response: ServerResponse) => void = () => undefined;
const server = createServer((request, response) => answer(request, response)).listen(0, "127.0.0.1");
await once(server, "listening");
afterAll(() => server.close());
const path = "/v1/payments/1";
const base = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const warned: unknown[] = [];
const log = { warn: (...said: unknown[]) => void warned.push(said) };
const lookUp = openLookUp(log, base());

test("the account's access token opens its own payment", async () => {
  answer = ({ headers }, response) => response.end(JSON.stringify({ bearer: headers.authorization }));
  expect(await lookUp(path, "APP_USR-1")).toEqual({ bearer: "Bearer APP_USR-1" });
});

test("every other answer is one to ask again for, and no token is said", async () => {
  for (const [status, body] of [
    [401, "{}"],
    [404, "{}"],
    [302, "{}"],
    [500, "{}"],
    [200, "<html>"],
    [200, "[]"],
    [200, "null"],
    [200, JSON.stringify({ text: "x".repeat(200_000) })],
  ] as const) {
    answer = (_, response) => void response.writeHead(status).end(body);
    await expect(lookUp(path, "APP_USR-1")).rejects.toMatchObject({ name: "Unavailable", retryAfterSec: 30 });
  }
  const closed = openLookUp(log, `http://127.0.0.1:${await closedPort()}`);
  await expect(closed(path, "APP_USR-1")).rejects.toThrow(/ECONNREFUSED/);
  expect(JSON.stringify(warned)).not.toContain("APP_USR");
});

test.each([MERCADOPAGO, `${MERCADOPAGO}/`, "HTTPS://API.mercadopago.com", "http://api.mercadopago.com"])(
  "%s is asked at public addresses alone, whatever its name resolves to",
  async (address) => {
    answer = () => expect.fail("was asked");
    const asked: string[] = [];
    const resolved = openLookUp(log, address, ({ url, ...rest }) => {
      asked.push(url.href);
      return getOutbound({ ...rest, url: new URL(`${base()}${path}`) });
    });
    await expect(resolved(path, "t")).rejects.toThrow(/no public address/);
    expect(asked).toEqual([expect.stringMatching(/^https?:\/\/api\.mercadopago\.com\/v1\/payments\/1$/)]);
  },
);

test("the path of an address stays before that of the payment", async () => {
  answer = ({ url }, response) => response.end(JSON.stringify({ url }));
  expect(await openLookUp(log, `${base()}/gateway/`)(path, "t")).toEqual({ url: "/gateway/v1/payments/1" });
});

test("a processor that hangs holds a bounded number of requests", async () => {
  const held: ServerResponse[] = [];
  answer = (_, response) => void held.push(response);
  const asked = Array.from({ length: 64 }, () => lookUp(path, "t"));
  await expect(lookUp(path, "t")).rejects.toThrow(/too many payments/);
  await expect.poll(() => held.length).toBe(64);
  for (const response of held) response.end("{}");
  expect(await Promise.all(asked)).toHaveLength(64);
  answer = (_, response) => void response.end("{}");
  expect(await lookUp(path, "t")).toEqual({});
});

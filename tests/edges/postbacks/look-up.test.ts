// A notice that only names a payment makes a request to the provider's API, over real connections.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, expect, test } from "vitest";
import { getOutbound } from "../../../infra/outbound/outbound.ts";
import { openLookUp } from "../../../modules/intake/payment-notices/look-up.ts";
import { closedPort } from "../../support/closed-port.ts";

let answer: (request: IncomingMessage, response: ServerResponse) => void = () => undefined;
const server = createServer((request, response) => answer(request, response)).listen(0, "127.0.0.1");
afterAll(() => server.close());
const url = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/payments/1`;
const warned: unknown[] = [];
const log = { warn: (...said: unknown[]) => void warned.push(said) };
const lookUp = openLookUp(log, (asked) => getOutbound({ ...asked, allowed: ["127.0.0.0/8"] }));

test("the account's access token opens its own payment", async () => {
  answer = ({ headers }, response) => response.end(JSON.stringify({ bearer: headers.authorization }));
  expect(await lookUp(url(), "APP_USR-1")).toEqual({ bearer: "Bearer APP_USR-1" });
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
    await expect(lookUp(url(), "APP_USR-1")).rejects.toMatchObject({ name: "Unavailable", retryAfterSec: 30 });
  }
  await expect(lookUp(`http://127.0.0.1:${await closedPort()}/`, "APP_USR-1")).rejects.toThrow(/ECONNREFUSED/);
  expect(JSON.stringify(warned)).not.toContain("APP_USR");
});

test("no address that is not public is asked", async () => {
  answer = () => expect.fail("was asked");
  await expect(openLookUp(log)(url(), "t")).rejects.toThrow(/no public address/);
});

test("a processor that hangs holds a bounded number of requests", async () => {
  const held: ServerResponse[] = [];
  answer = (_, response) => void held.push(response);
  const asked = Array.from({ length: 64 }, () => lookUp(url(), "t"));
  await expect(lookUp(url(), "t")).rejects.toThrow(/too many payments/);
  await expect.poll(() => held.length).toBe(64);
  for (const response of held) response.end("{}");
  expect(await Promise.all(asked)).toHaveLength(64);
  answer = (_, response) => void response.end("{}");
  expect(await lookUp(url(), "t")).toEqual({});
});

// Senders that fail too often with opaque tokens are limited by network, and the limit is not
// forgotten.
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { expect, test } from "vitest";
import type { Problem } from "../../infra/http/problem.ts";
import { authenticator } from "../../infra/http/tokens.ts";

const good = "trb_ingest_good";
const authenticate = () => {
  const find = (token: string) => (token === good ? { kind: "ingest" as const } : undefined);
  return authenticator({ find, lookUp: async (token) => find(token), ready: Promise.resolve() }, "ingest");
};
const request = (token: string): IncomingMessage => {
  const asked = new IncomingMessage(new Socket());
  asked.headers = { authorization: `Bearer ${token}` };
  asked.rawHeaders.push("Authorization", `Bearer ${token}`);
  return asked;
};
const codeOf = async (ask: () => Promise<unknown>): Promise<string> => {
  try {
    await ask();
    return "taken";
  } catch (problem) {
    return (problem as Problem).code;
  }
};

test("a thousand failures of one IPv6 network are its last for the minute, whatever it shows between", async () => {
  const ask = authenticate();
  await Promise.resolve();
  for (let n = 0; n < 1_000; n += 1) {
    expect(await codeOf(() => ask(request("wrong"), `2001:db8:1:2::${n.toString(16)}`))).toBe("unauthorized");
    if (n % 100 === 0) expect(await codeOf(() => ask(request(good), "2001:db8:1:2::1"))).toBe("taken");
  }
  expect(await codeOf(() => ask(request("wrong"), "2001:db8:1:2:ffff::1"))).toBe("rate_limited");
  expect(await codeOf(() => ask(request(good), "2001:db8:1:2::1")), "a good token passes").toBe("taken");
  expect(await codeOf(() => ask(request("wrong"), "2001:db8:1:2::2")), "and makes it forget nothing").toBe(
    "rate_limited",
  );
  expect(await codeOf(() => ask(request("wrong"), "2001:db8:1:3::1")), "another network").toBe("unauthorized");
});

test("an IPv4 address counts the same however it is written", async () => {
  const ask = authenticate();
  await Promise.resolve();
  for (let n = 0; n < 1_000; n += 1)
    await codeOf(() => ask(request("wrong"), n % 2 === 0 ? "192.0.2.1" : "::ffff:192.0.2.1"));
  expect(await codeOf(() => ask(request("wrong"), "::ffff:192.0.2.1"))).toBe("rate_limited");
  expect(await codeOf(() => ask(request("wrong"), "192.0.2.2"))).toBe("unauthorized");
});

// Tickets of recordings: GET /config gives one, and POST /replay checks whether it is good for its
// client, network and hour.
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { networkOf } from "../../../infra/http/sender.ts";
import { type Keyring, keyringOf } from "../../../infra/runtime/keyring.ts";
import { openPixelHost, type PixelWorld } from "../../support/pixel-host.ts";

const HOUR = 3_600_000;
/** Half past an hour. */
const NOON = Date.UTC(2026, 10, 1, 12, 30);
const NEW = "aV7nR2kX9sQ4tZ6bW1yM8cF3hJ5gL0dP";
const OLD = "pL3vQ9xT7mK1wZ8rN4sB6yD2hJ5cF0gA";
const recording = { replay_enabled: true, replay_sample_rate: 100 };
const settled = (): PixelWorld => ({ settings: recording, now: () => NOON });
const world = settled();
const host = await openPixelHost(world);
afterAll(() => host.close());
afterEach(() => {
  host.clear();
  for (const key of Object.keys(world)) delete world[key as keyof PixelWorld];
  Object.assign(world, settled());
});
const at = (now: number): void => {
  world.now = () => now;
};
const under = (keyring: Keyring): void => {
  world.keyring = keyring;
};

const configFrom = (address: string) => fetch(`${host.url}/config?cid=7`, { headers: { "x-forwarded-for": address } });
const ticketFor = async (address: string): Promise<string> =>
  ((await (await configFrom(address)).json()) as { replay_ticket: string }).replay_ticket;

let senders = 0;
/** Another address of the network, because an address may send 20 chunks in a second. */
const near = (address: string): string => {
  senders += 1;
  return address.replace(/^(203\.0\.113)\.7$/, `$1.${10 + (senders % 200)}`);
};
const send = async (address: string, over: object) => {
  const body = JSON.stringify({
    ...{ cid: 7, did: "visitor-1", sid: "session-0001", page: "0123456789abcdef", seq: 0, consent: 0xff },
    events: [{ type: 4, timestamp: NOON, data: {} }],
    ...over,
  });
  const answer = await fetch(`${host.url}/replay`, {
    method: "POST",
    headers: { "x-forwarded-for": near(address) },
    body,
  });
  const text = await answer.text();
  return { status: answer.status, problem: text === "" ? undefined : JSON.parse(text) };
};
/** Whether the chunk counts as one with a ticket. */
const isGood = async (address: string, over: object): Promise<boolean> => {
  expect((await send(address, over)).status).toBe(204);
  return host.recorded.at(-1)!.hasTicket;
};

describe("/config", () => {
  test("gives a ticket of a visitor, which no shared cache may keep", async () => {
    const answer = await configFrom("203.0.113.7");
    expect(answer.headers.get("cache-control")).toBe("private, max-age=300");
    expect(await answer.json()).toMatchObject({ replay_ticket: expect.stringMatching(/^\d{6}\.[\w-]{16}$/) });
  });

  test("gives none where nothing is recorded, and stays public", async () => {
    world.settings = { replay_enabled: false, replay_sample_rate: 100 };
    const answer = await configFrom("203.0.113.7");
    expect(answer.headers.get("cache-control")).toBe("public, max-age=300");
    expect(await answer.json()).not.toHaveProperty("replay_ticket");
  });
});

describe("a ticket is good", () => {
  test.each([
    ["where it was given", "203.0.113.7", "203.0.113.7", true],
    ["in the /24 of IPv4", "203.0.113.7", "203.0.113.250", true],
    ["in no other network of IPv4", "203.0.113.7", "203.0.114.7", false],
    ["in the /48 of IPv6", "2001:db8:1:2::1", "2001:0DB8:1:ffff::9", true],
    ["in no other network of IPv6", "2001:db8:1:2::1", "2001:db8:2:2::1", false],
    ["for an address of IPv4 that is written as IPv6", "203.0.113.7", "::ffff:203.0.113.7", true],
  ])("%s", async (_name, asker, sender, expected) => {
    expect(await isGood(sender, { ticket: await ticketFor(asker) })).toBe(expected);
  });

  test("for its client alone", async () => {
    const ticket = await ticketFor("203.0.113.7");
    expect(await isGood("203.0.113.7", { ticket, cid: 8 })).toBe(false);
  });

  test("in its hour and the next one, and neither later nor before", async () => {
    const ticket = await ticketFor("203.0.113.7");
    const found: boolean[] = [];
    for (const now of [NOON - HOUR, NOON, NOON + HOUR, NOON + 1.5 * HOUR - 1, NOON + 1.5 * HOUR]) {
      at(now);
      found.push(await isGood("203.0.113.7", { ticket }));
    }
    expect(found).toEqual([false, true, true, true, false]);
  });

  test("under each secret of the list, and the newest signs", async () => {
    under(keyringOf(OLD));
    const before = await ticketFor("203.0.113.7");
    under(keyringOf(`${NEW},${OLD}`));
    const after = await ticketFor("203.0.113.7");
    expect(await isGood("203.0.113.7", { ticket: before })).toBe(true);
    under(keyringOf(`${NEW},pepper:${OLD}`));
    expect(await isGood("203.0.113.7", { ticket: after })).toBe(true);
    expect(await isGood("203.0.113.7", { ticket: before })).toBe(false);
  });

  test("with none of its characters changed", async () => {
    const ticket = await ticketFor("203.0.113.7");
    for (const [n, is] of [...ticket].entries()) {
      const changed = ticket.slice(0, n) + (is === "1" ? "2" : "1") + ticket.slice(n + 1);
      expect([changed, await isGood("203.0.113.7", { ticket: changed })]).toEqual([changed, false]);
    }
  });
});

describe("a chunk", () => {
  test("without a ticket, or with a text that is none, goes to the bounds for those", async () => {
    expect(await isGood("203.0.113.7", {})).toBe(false);
    expect(await isGood("203.0.113.7", { ticket: null })).toBe(false);
    expect(await isGood("203.0.113.7", { ticket: "x".repeat(64) })).toBe(false);
    expect(host.recorded.at(-1)).toMatchObject({
      sender: expect.stringMatching(/^203\.0\.113\./),
      network: "203.0.113.0/24",
    });
  });

  test.each([[5], [""], ["x".repeat(65)], [{}]])(
    "with a ticket that is no short text is refused: %j",
    async (ticket) => {
      const { status, problem } = await send("203.0.113.7", { ticket });
      expect([status, problem.errors[0].pointer]).toEqual([400, "/ticket"]);
    },
  );

  test.each([
    ["ticket_needed", /replay_ticket of \/config/],
    ["too_many_of_address", /address/],
    ["too_many_of_network", /network/],
    ["too_many_visits", /client/],
  ] as const)("that begins too many visits says which bound it is: %s", async (bound, says) => {
    world.record = async () => bound;
    const { status, problem } = await send("203.0.113.7", {});
    expect([status, problem.code]).toEqual([403, bound]);
    expect(problem.detail).toMatch(says);
  });
});

test("a network is the first bits of an address, and a text that is no address stays", () => {
  expect(networkOf("203.0.113.7")).toBe("203.0.113.0/24");
  expect(networkOf("2001:db8:a:b::1")).toBe("2001:db8:a::/48");
  expect(networkOf("unknown")).toBe("unknown");
});

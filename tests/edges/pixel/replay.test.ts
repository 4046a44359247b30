// POST /replay over HTTP: the host's conditions for session replay, and the answers to other
// senders.
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { until } from "../../../infra/runtime/timing/wait-until.ts";
import { closedGate, sampleOf } from "../../../modules/intake/recordings/gates.ts";
import { factsOfTwo, openPixelHost, type PixelWorld } from "../../support/pixel-host.ts";

const recording = { replay_enabled: true, replay_sample_rate: 100 };
const world: PixelWorld = { settings: recording };
const host = await openPixelHost(world);
afterAll(() => host.close());
afterEach(() => {
  host.clear();
  for (const key of Object.keys(world)) delete world[key as keyof PixelWorld];
  world.settings = recording;
});

const move = (source: number) => ({ type: 3, timestamp: 1_700_000_000_500, data: { source, positions: [] } });
const meta = { type: 4, timestamp: 1_700_000_000_000, data: { href: "https://shop.example/", width: 9, height: 9 } };
const chunk = (over: object = {}) => ({
  ...{ cid: 7, did: "visitor-1", sid: "session-0001", page: "0123456789abcdef", seq: 0, consent: 0xff },
  events: [meta],
  ...over,
});
let senders = 0;
/** Each request comes from an address of its own, because an address has a limit. */
const post = async (body: unknown, headers: Readonly<Record<string, string>> = {}) => {
  senders += 1;
  const answer = await fetch(`${host.url}/replay`, {
    method: "POST",
    headers: { "content-type": "text/plain", "x-forwarded-for": `203.0.113.${senders % 250}`, ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, problem: text === "" ? undefined : JSON.parse(text) };
};

describe("a chunk goes through", () => {
  test("when every gate is open, under the keyed hash of its device", async () => {
    expect((await post(chunk())).status).toBe(204);
    const { identify } = factsOfTwo(7, 0)!;
    expect(host.recorded).toMatchObject([
      { device: identify.plain("visitor-1"), mask: 0xff, chunk: { sessionId: "session-0001", seq: 0, count: 1 } },
    ]);
  });

  test("without mouse moves, touches, drags and canvas, whatever recorded them", async () => {
    await post(chunk({ events: [meta, ...[1, 6, 9, 12, 2].map(move)] }));
    const [{ chunk: taken } = { chunk: undefined }] = host.recorded;
    expect(JSON.parse(taken!.events)).toEqual([meta, move(2)]);
    expect(taken).toMatchObject({ count: 2, firstAt: meta.timestamp, lastAt: meta.timestamp + 500 });
  });

  test("by the client's default where the visitor has chosen nothing", async () => {
    expect((await post(chunk({ consent: undefined }))).status).toBe(204);
    expect(host.recorded).toMatchObject([{ mask: 0xff, chunk: { consent: null } }]);
  });
});

describe("a closed gate is said, and nothing is stored", () => {
  const refusals: readonly (readonly [string, Partial<PixelWorld>, object, object, string])[] = [
    ["the client records nothing", { settings: {} }, {}, {}, "replay_off"],
    ["of no visit", { settings: { replay_enabled: true, replay_sample_rate: 0 } }, {}, {}, "not_sampled"],
    ["without the bit of replay", {}, { consent: 0xef }, {}, "no_consent"],
    ["without the bit of analytics", {}, { consent: 0xfe }, {}, "no_consent"],
    ["the browser's signal, as a header that no page can forge", {}, {}, { "sec-gpc": "1" }, "no_consent"],
    ["the browser's signal, as the script read it", {}, { gpc: true }, {}, "no_consent"],
    [
      "the client's default",
      { facts: (id) => ({ ...factsOfTwo(id, 0)!, consentDefault: 0 }) },
      { consent: undefined },
      {},
      "no_consent",
    ],
    [
      "a choice is needed and was not made",
      { settings: { ...recording, consent_replay: true } },
      { consent: undefined },
      {},
      "consent_not_chosen",
    ],
    [
      "a page that is not on the list",
      { settings: { ...recording, allowed_domains: ["shop.example"] } },
      {},
      { origin: "https://evil.example" },
      "domain_not_allowed",
    ],
    ["a client that there is not", {}, { cid: 99 }, {}, "unknown_client"],
  ];
  test.each(refusals)("%s", async (_name, change, body, headers, code) => {
    Object.assign(world, change);
    const { status, problem } = await post(chunk(body), headers as Record<string, string>);
    expect([status, problem.code, host.recorded.length]).toEqual([403, code, 0]);
    expect(problem.detail.length).toBeGreaterThan(10);
  });

  test("Do Not Track closes none of them: it is about export", async () => {
    expect((await post(chunk(), { dnt: "1" })).status).toBe(204);
  });

  test("by the draw: below the rate is recorded, at it and above is not", () => {
    const visitor = { sessionId: "session-0001", mask: 0xff, isChosen: true };
    const settings = { replay_enabled: true, replay_sample_rate: 25, consent_replay: false };
    expect(closedGate(settings, visitor, 24.999)).toBeUndefined();
    expect(closedGate(settings, visitor, 25)?.code).toBe("not_sampled");
    expect(closedGate({ ...settings, replay_sample_rate: 100 }, visitor, 99.999_999)).toBeUndefined();
  });

  test("of ten thousand visits as many are drawn as the rate says, and each always or never", () => {
    const drawn = Array.from({ length: 10_000 }, (_, n) => sampleOf(`visit-${n}`));
    const share = drawn.filter((draw) => draw < 15).length / 10_000;
    expect([share > 0.13, share < 0.17, sampleOf("visit-1") === drawn[1]]).toEqual([true, true, true]);
    expect([Math.min(...drawn) >= 0, Math.max(...drawn) < 100]).toEqual([true, true]);
  });
});

describe("what is no chunk is refused by the name of its field", () => {
  test.each([
    ["cid", { cid: "7" }],
    ["cid", { cid: 2 ** 31 }],
    ["did", { did: "" }],
    ["did", { did: "x".repeat(257) }],
    ["sid", { sid: "../../etc" }],
    ["sid", { sid: ["a"] }],
    ["page", { page: "XYZ" }],
    ["seq", { seq: -1 }],
    ["seq", { seq: 1_000 }],
    ["consent", { consent: 256 }],
    ["consent", { consent: "255" }],
    ["events", { events: [] }],
    ["events", { events: "all" }],
    ["events", { events: Array.from({ length: 5_001 }, () => meta) }],
    ["events/1", { events: [meta, 5] }],
    ["events/0", { events: [{ type: 7, timestamp: 1 }] }],
    ["events/0", { events: [{ type: 2, timestamp: -1 }] }],
  ])("%s: %j", async (field, over) => {
    const { status, problem } = await post(chunk(over));
    expect([status, problem.errors[0].pointer]).toEqual([400, `/${field}`]);
    expect(problem.detail).toMatch(/send/);
    expect(host.recorded).toEqual([]);
  });

  test.each([
    ["nothing", ""],
    ["no JSON", "{"],
    ["a list", "[]"],
    ["deep JSON", JSON.stringify(chunk()).replace('"data"', `"x":${"[".repeat(200_000)}${"]".repeat(200_000)},"data"`)],
  ])("%s", async (_name, body) => {
    expect([(await post(body)).status, host.recorded.length]).toEqual([400, 0]);
  });

  test("more than 1 MiB", async () => {
    const events = [{ ...meta, data: "x".repeat(1024 * 1024) }];
    expect((await post(chunk({ events }))).status).toBe(413);
  });

  test("an address that sends more than twenty in a second waits", async () => {
    const statuses = new Set<number>();
    await until("a second had too many", 20_000, async () => {
      const sent = Array.from({ length: 60 }, () => post("{", { "x-forwarded-for": "198.51.100.7" }));
      for (const { status } of await Promise.all(sent)) statuses.add(status);
      expect(statuses).toContain(429);
    });
    expect((await post(chunk(), { "x-forwarded-for": "198.51.100.8" })).status).toBe(204);
  });

  test("a visit that may not grow says why, and a store that is away is no fault of the page", async () => {
    world.record = async () => "visit_too_long";
    expect((await post(chunk())).problem).toMatchObject({ status: 403, code: "visit_too_long" });
    world.record = async () => {
      throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
    };
    const { status, headers } = await post(chunk());
    expect([status, headers.get("retry-after")]).toEqual([503, "5"]);
  });

  test("its answer can be read by the page that sent it, with credentials where both are of one site", async () => {
    const strange = await post(chunk({ seq: -1 }), { origin: "https://shop.example" });
    expect(strange.headers.get("access-control-allow-origin")).toBe("*");
    const own = await post(chunk({ consent: 0 }), { origin: "https://shop.example", "sec-fetch-site": "same-site" });
    expect(own.headers.get("access-control-allow-origin")).toBe("https://shop.example");
    expect(own.headers.get("access-control-allow-credentials")).toBe("true");
  });
});

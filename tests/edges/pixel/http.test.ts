// The pixel host over HTTP: the answer to every sender, and the records behind it.
import { request } from "node:http";
import { connect } from "node:net";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { inMemoryWire } from "../../../infra/avro/wire.ts";
import { Unavailable } from "../../../infra/runtime/errors.ts";
import { until } from "../../../infra/runtime/timing/wait-until.ts";
import { readmitted } from "../../../modules/intake/path/refused-events.ts";
import { topics } from "../../../topics.ts";
import { factsOfTwo, keyring, openPixelHost, type PixelWorld } from "../../support/pixel-host.ts";

const world: PixelWorld = {};
const host = await openPixelHost(world);
afterAll(() => host.close());
afterEach(() => {
  host.clear();
  for (const key of Object.keys(world)) delete world[key as keyof PixelWorld];
});

const view = (over: object = {}) => ({ t: "page_view", ts: Date.now(), url: "https://shop.example/a", ...over });
const envelope = (over: object = {}) => ({ cid: 7, did: "visitor-1", sid: "s1", events: [view()], ...over });
type Headers = Readonly<Record<string, string>>;
interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: Buffer;
}
/** Sends these exact headers, which fetch would refuse. */
const ask = (method: string, path: string, headers: Headers = {}, body?: string | Buffer): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const asked = request({ port: host.port, host: "127.0.0.1", method, path, headers, agent: false }, (answered) => {
      const parts: Buffer[] = [];
      answered.on("data", (part: Buffer) => parts.push(part));
      answered.on("end", () =>
        resolve({ status: answered.statusCode!, headers: answered.headers, body: Buffer.concat(parts) }),
      );
    });
    asked.once("error", reject);
    asked.end(body);
  });
const post = (body: unknown, headers: Headers = {}) =>
  ask(
    "POST",
    "/e",
    { "content-type": "text/plain", ...headers },
    typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body),
  );
/** Senders beside the usual one, each with letters of its own. */
const another = { "x-forwarded-for": "203.0.113.20" };
const third = { "x-forwarded-for": "203.0.113.21" };
const codes = () => host.letters.map(({ headers }) => String(headers!["tributary-code"]));

describe("POST /e", () => {
  test.each(["text/plain;charset=UTF-8", "application/json", "application/x-www-form-urlencoded", ""])(
    "takes events whatever the type says: %s",
    async (type) => {
      const { status, body, headers } = await post(envelope(), { "content-type": type });
      expect([status, body.length, headers["access-control-allow-origin"]]).toEqual([204, 0, "*"]);
      expect(host.events).toMatchObject([{ t: "page_view", client_id: 7, source: "pixel", sid: "s1" }]);
    },
  );

  test("of a body with good and bad events the good are stored, each bad one is a letter of its own", async () => {
    const events = [view(), view({ t: "purchase" }), view({ cid: 8 }), 5];
    expect((await post(envelope({ events }))).status).toBe(204);
    expect([host.events.length, codes()]).toEqual([1, ["missing_prop", "wrong_client", "bad_event"]]);
    expect(host.seen).toMatchObject([
      { code: "missing_prop", subject: "purchase props.order_id" },
      { code: "wrong_client", subject: "page_view cid" },
      { code: "bad_event" },
      { client_id: 7, code: "taken", count: 1 },
    ]);
  });

  test.each([
    ["nothing", "", "bad_json"],
    ["garbage", "\u0000{{{", "bad_json"],
    ["a list", "[]", "bad_json"],
    ["no client", JSON.stringify(envelope({ cid: undefined })), "missing_cid"],
    ["two clients", JSON.stringify(envelope({ cid: [7, 8] })), "missing_cid"],
    ["a client that there is not", JSON.stringify(envelope({ cid: 99 })), "unknown_client"],
    ["deep JSON", `{"a":${"[".repeat(30_000)}${"]".repeat(30_000)}}`, "missing_cid"],
    ["more than 64 KiB", JSON.stringify(envelope({ x: "x".repeat(70_000) })), "body_too_large"],
    ["more than is read", "x".repeat(300_000), "bad_json"],
  ])("answers 204 to %s, and keeps it under the key of the installation", async (_, body, code) => {
    expect((await post(body)).status).toBe(204);
    expect([host.events.length, codes()]).toEqual([0, [code]]);
    const [letter] = host.letters;
    expect(letter!.topic).toBe("pixel.dlq");
    expect(letter!.value!.toString()).toMatch(/^sealed:1:/);
    expect(letter!.value!.length).toBeLessThan(150_000);
  });

  test("of what never becomes an event a sample of each code is kept, and all of it is counted", async () => {
    for (let n = 0; n < 20; n += 1) {
      expect((await post("{{{", another)).status).toBe(204);
      expect((await post(envelope({ cid: undefined }), another)).status).toBe(204);
    }
    expect(codes().filter((code) => code === "bad_json")).toHaveLength(5);
    expect(codes().filter((code) => code === "missing_cid")).toHaveLength(5);
    expect(host.letters.every(({ headers }) => headers!["tributary-stranger"] === "1")).toBe(true);
    await until("all are counted", 30_000, () => expect(host.counted).toHaveLength(40));
    expect(host.counted.filter(({ refused }) => refused.get("bad_json") === 1)).toHaveLength(20);
  });
  test("of a body that is too large only its beginning is in the sample", async () => {
    await post("x".repeat(200_000), another);
    await post(envelope({ x: "x".repeat(70_000) }), another);
    expect(host.letters.map(({ value }) => value!.length < 8_000)).toEqual([true, true]);
  });
  test("what may become an event is kept whole and each time: unknown clients, or none known yet", async () => {
    for (let n = 0; n < 12; n += 1) await post(envelope({ cid: 99, x: "x".repeat(20_000) }), third);
    expect(codes()).toEqual(Array(12).fill("unknown_client"));
    expect(host.letters[0]!.value!.length).toBeGreaterThan(20_000);
    world.facts = () => {
      throw new Unavailable("the clients are not known here yet", 1);
    };
    await post(envelope(), third);
    await post(envelope({ events: [view({ t: "purchase" })] }), third);
    expect(codes().slice(12)).toEqual(["not_ready", "not_ready"]);
    expect(host.letters.map(({ headers }) => headers!["tributary-stranger"])).toEqual([
      ...Array(12).fill("1"),
      undefined,
      undefined,
    ]);
  });
  test("a letter shows nothing of what a page sent", async () => {
    await post(envelope({ events: [view({ t: "purchase", props: { email: "ana@shop.example" } })] }));
    expect(JSON.stringify(host.letters.map(({ value, headers }) => [value!.toString(), headers]))).not.toContain(
      "ana@",
    );
  });

  test("gzip that is broken and one that is a bomb are kept as malformed", async () => {
    expect((await post("not gzip", { "content-encoding": "gzip" })).status).toBe(204);
    expect(codes()).toEqual(["bad_json"]);
  });

  test("answers 503 only when no place takes what was sent", async () => {
    world.store = () => Promise.reject(new Unavailable("events cannot be stored now", 2));
    const { status, headers } = await post(envelope());
    expect([status, headers["retry-after"], headers["access-control-allow-origin"]]).toEqual([503, "2", "*"]);
  });

  test("an address sends 600 events of a client in a second; another one beside it has its own", async () => {
    const from = (address: string) => ({ "x-forwarded-for": address });
    const many = envelope({ events: Array.from({ length: 100 }, () => view()) });
    const answers = await Promise.all(Array.from({ length: 20 }, () => post(many, from("203.0.113.5"))));
    expect(answers.map(({ status }) => status)).toContain(429);
    expect(answers.find(({ status }) => status === 429)!.headers["retry-after"]).toBe("1");
    expect((await post(envelope(), from("203.0.113.6"))).status).toBe(204);
  });

  test("the sender's address is that of the visitor behind our proxy, and none that it makes up", async () => {
    await post(envelope(), { "x-forwarded-for": "198.51.100.1, 203.0.113.7" });
    expect(host.events[0]!.ip).toBe("203.0.113.7");
  });
});

describe("pages", () => {
  test("a page that is not on the list is answered the same, dropped and noted", async () => {
    world.settings = { allowed_domains: ["shop.example", "*.shop.example"] };
    for (const origin of ["https://evil.example", "https://shop.example.evil.example", "null", "not a url"])
      expect((await post(envelope(), { origin })).status).toBe(204);
    expect((await post(envelope())).status).toBe(204);
    expect([host.events.length, host.letters.length]).toEqual([0, 0]);
    expect(host.seen.map(({ code, subject }) => `${code} ${subject}`)).toContain(
      "domain_not_allowed https://evil.example",
    );
    await until("all are counted", 30_000, () => expect(host.counted).toHaveLength(5));
    expect(host.counted[0]!.refused).toEqual(new Map([["domain_not_allowed", 1]]));
  });

  test.each(["https://shop.example", "https://www.shop.example:8443"])(
    "%s is on it, and may send cookies",
    async (origin) => {
      world.settings = { allowed_domains: ["shop.example", "*.shop.example"] };
      const { headers } = await post(envelope(), { origin });
      expect(headers).toMatchObject({
        "access-control-allow-origin": origin,
        "access-control-allow-credentials": "true",
        vary: "Origin",
      });
      expect(host.events).toHaveLength(1);
    },
  );

  test("without a list every page may send, and none with its cookies", async () => {
    const { headers } = await post(envelope(), { origin: "https://evil.example" });
    expect([headers["access-control-allow-origin"], headers["access-control-allow-credentials"]]).toEqual([
      "*",
      undefined,
    ]);
  });

  test("no header of an answer is made by its sender", async () => {
    const { headers } = await post(envelope({ did: "a;Domain=evil.example" }), {
      origin: "https://a.shop.example/%0d%0aX: y",
      "sec-fetch-site": "same-site",
      host: "p.shop.example",
    });
    expect([headers["set-cookie"], headers["access-control-allow-origin"], headers.x]).toEqual([
      undefined,
      "*",
      undefined,
    ]);
  });
});

describe("the device cookie", () => {
  const page = { origin: "https://www.shop.example", "sec-fetch-site": "same-site", host: "p.shop.example:443" };
  test("of a page of the same site is set for a year on the domain that both share", async () => {
    const { headers } = await post(envelope(), page);
    expect(headers["set-cookie"]).toEqual([
      "_svc_did=visitor-1; Max-Age=31536000; Path=/; Domain=shop.example; SameSite=Lax; Secure",
    ]);
    expect(headers["access-control-allow-credentials"]).toBe("true");
  });
  test.each([
    ["another site", { ...page, "sec-fetch-site": "cross-site" }, {}],
    ["a visitor who agreed to nothing", page, { consent: 0 }],
    ["Global Privacy Control", { ...page, "sec-gpc": "1" }, {}],
    ["a refused event", page, { events: [{ t: "purchase" }] }],
  ])("is not set for %s", async (_, headers, over) =>
    expect((await post(envelope(over), headers)).headers["set-cookie"]).toBeUndefined(),
  );
});

describe("GET /e", () => {
  const gif = async (query: string, headers: Headers = {}) => {
    const answer = await ask("GET", `/e?${query}`, headers);
    expect([answer.body.length, answer.body.subarray(0, 6).toString(), answer.headers["content-type"]]).toEqual([
      43,
      "GIF89a",
      "image/gif",
    ]);
    expect(answer.headers["cache-control"]).toBe("no-store");
    return answer;
  };

  test("is the event of its query, with props", async () => {
    const props = "p.order_id=007&p.revenue=12.50&p.product_id=9&p.quantity=2";
    await gif(
      `t=purchase&cid=7&did=visitor-1&sid=s1&ts=${Date.now()}&url=https%3A%2F%2Fshop.example%2F&consent=255&${props}`,
    );
    expect(host.events).toMatchObject([{ t: "purchase", order_id: "007", value_minor: 1250n, quantity: 2, sid: "s1" }]);
  });

  test("has props and choice with their types when they are JSON, and a mask by hand is a number", async () => {
    const props = { order_id: "7", revenue: 12.5, product_id: "9", quantity: 2, isGift: true, tags: ["a"] };
    const query = new URLSearchParams({
      ...{ t: "purchase", cid: "7", did: "visitor-1", url: "https://shop.example/" },
      ...{ consent: JSON.stringify({ set: 1, clear: 4 }), props: JSON.stringify(props) },
    });
    await gif(`${query}`);
    await gif("t=consent&cid=7&did=visitor-1&url=x&consent=00&p.mask=0");
    const [sale, choice] = host.events;
    expect(JSON.parse(sale!.props)).toEqual(props);
    expect(sale).toMatchObject({ consent: 0xfb, value_minor: 1250n, quantity: 2 });
    expect([choice!.consent, JSON.parse(choice!.props)]).toEqual([0, { mask: 0 }]);
  });

  test("takes what is left out from the request: the page, the device, the click, the time", async () => {
    const cookie = `a=b; _svc_did=visitor-9; _svc_cid=${"c".repeat(44)}; ${"x=y; ".repeat(800)}`;
    await gif("t=page_view&cid=7", { referer: "https://shop.example/page", cookie });
    await gif("t=page_view&cid=7&did=visitor-9", { referer: "https://shop.example/page" });
    const [first, second] = host.events;
    expect(first).toMatchObject({ url: "https://shop.example/page", click_id: "c".repeat(44), did: second!.did });
    expect(Math.abs(first!.ts - Date.now())).toBeLessThan(60_000);
  });

  test("a new device gets its cookie", async () => {
    const { headers } = await gif("t=page_view&cid=7", {
      referer: "http://www.shop.example/",
      "sec-fetch-site": "same-site",
      host: "p.shop.example",
    });
    expect(String(headers["set-cookie"])).toMatch(
      /^_svc_did=[0-9a-f-]{36}; Max-Age=31536000; Path=\/; Domain=shop.example; SameSite=Lax$/,
    );
  });

  test.each([
    "",
    "t=page_view",
    "t=page_view&cid=7&cid=8",
    "t=page_view&cid=x",
    "%",
    `cid=7&t=${"x".repeat(8_000)}`,
    "cid=7&t=page_view&p.__proto__=1&url=x",
    `cid=7&t=page_view&url=x&props=${"[".repeat(3_900)}${"]".repeat(3_900)}`,
    `cid=7&t=page_view&url=x&props={"a":${"[".repeat(3_900)}${"]".repeat(3_900)}}`,
    `cid=7&t=page_view&url=x&consent=${"[".repeat(3_900)}${"]".repeat(3_900)}`,
    "cid=7&t=page_view&url=x&props={&consent={",
  ])("is the image whatever stands in the query: %.40s", async (query) => {
    await gif(query);
    expect([host.events.length, host.letters.length]).toEqual([0, 1]);
  });

  test("is the image above the limit, and where nothing can be stored", async () => {
    world.store = () => Promise.reject(new Unavailable("events cannot be stored now", 2));
    expect((await gif("t=page_view&cid=7&url=x")).status).toBe(503);
  });

  test("HEAD leaves no event", async () => {
    expect((await ask("HEAD", "/e?t=page_view&cid=7&url=x")).status).toBe(200);
    expect(host.events).toEqual([]);
  });
});

describe("the other routes", () => {
  test("/ping answers nothing, and may be timed", async () => {
    const { status, headers } = await ask("GET", "/ping");
    expect([status, headers["timing-allow-origin"]]).toEqual([204, "*"]);
  });

  test("/config is public for five minutes, and 404 for what is no client", async () => {
    const { status, headers, body } = await ask("GET", "/config?cid=7");
    expect([status, headers["cache-control"]]).toEqual([200, "public, max-age=300"]);
    expect(JSON.parse(body.toString())).toEqual({ client_id: 7, consent_default: 255 });
    for (const query of ["", "?cid=8", "?cid=7&cid=7", "?cid=7%20", "?cid=0x7"])
      expect((await ask("GET", `/config${query}`)).status).toBe(404);
  });

  test("OPTIONS names the methods, TRACE and others are 405, other paths 404", async () => {
    const { status, headers } = await ask("OPTIONS", "/e", { origin: "https://a.example" });
    expect([status, headers["access-control-allow-methods"]]).toEqual([204, "GET, HEAD, POST, OPTIONS"]);
    for (const method of ["TRACE", "PUT", "DELETE"]) expect((await ask(method, "/e")).status).toBe(405);
    for (const path of ["/", "/e/", "/E", "/r.js/", "/../r.js"]) expect((await ask("GET", path)).status).toBe(404);
  });

  test("/r.js is 503 as long as it was not built", async () => expect((await ask("GET", "/r.js")).status).toBe(503));
});

test("/r.js is cached for five minutes by its tag, gzipped where that is taken, and never with a cookie", async () => {
  const [plain, gzipped] = [Buffer.from("svc"), Buffer.from("gz")];
  const built = await openPixelHost({ script: { plain, gzipped, tag: '"abc"' } });
  const get = (headers: Headers = {}) => fetch(`${built.url}/r.js`, { headers });
  try {
    const whole = await get({ "accept-encoding": "identity", cookie: "_svc_did=x", range: "bytes=0-1" });
    expect([whole.status, await whole.text()]).toEqual([200, "svc"]);
    expect(whole.headers.get("cache-control")).toBe("public, max-age=300");
    expect([whole.headers.get("etag"), whole.headers.get("set-cookie")]).toEqual(['W/"abc"', null]);
    expect((await get({ "if-none-match": '"x", W/"abc"' })).status).toBe(304);
  } finally {
    await built.close();
  }
});

describe("a letter that is due", () => {
  const wire = inMemoryWire([topics.eventsRaw]);
  const sent = { root: "root", first: { topic: "pixel.dlq", partition: 2, offset: 17 } };
  const again = async (facts = factsOfTwo) => {
    const letters = host.letters.map((letter) => {
      const kept = { value: letter.value, headers: letter.headers! };
      return readmitted({ keyring, wire, facts, clock: Date.now }, kept, sent);
    });
    return (await Promise.all(letters)).flatMap((messages) => messages ?? []);
  };

  test("is admitted under its own times once its client is known", async () => {
    world.facts = () => {
      throw new Unavailable("the clients are not known here yet", 1);
    };
    const body = envelope({ events: [view({ event_id: "e1" })] });
    expect((await post(body)).status).toBe(204);
    expect(codes()).toEqual(["not_ready"]);
    const [message] = await again();
    const { data, receivedAt } = wire.decode(topics.eventsRaw, message!.value, {
      topic: "events.raw",
      partition: 0,
      offset: 0,
    });
    expect(data).toMatchObject({ t: "page_view", client_id: 7, sender_event_id: "e1" });
    expect(Math.abs(receivedAt - Date.now())).toBeLessThan(60_000);
  });

  test("is a letter again while it is still refused, of the same root, and counted on", async () => {
    await post(envelope({ events: [view({ t: "purchase" }), view({ cid: 8 })] }));
    const more = await again();
    expect(
      more.map(({ topic, headers }) => [topic, headers!["tributary-letter"], headers!["tributary-attempt"]]),
    ).toEqual([
      ["pixel.dlq", "root", "2"],
      ["pixel.dlq", "root", "2"],
    ]);
    expect(more.map(({ headers }) => headers!["tributary-code"])).toEqual(["missing_prop", "unknown_client"]);
  });

  test("names the letter that keeps its bytes when it is refused again, and copies nothing", async () => {
    await post(envelope({ events: [view({ t: "purchase", props: { note: "x".repeat(40_000) } })] }));
    const [record] = await again();
    expect([record!.value, record!.headers!["tributary-first"], record!.headers!["tributary-client"]]).toEqual([
      null,
      "pixel.dlq/2@17",
      "7",
    ]);
    expect(Buffer.byteLength(JSON.stringify(record))).toBeLessThan(1_000);
  });

  test("of another key or another writer is left to a person", async () => {
    await post("garbage");
    const [letter] = host.letters;
    const tried = (value: Buffer) =>
      readmitted({ keyring, wire, facts: factsOfTwo, clock: Date.now }, { value, headers: letter!.headers! }, sent);
    expect(await tried(Buffer.from("x"))).toBeUndefined();
    expect(await tried(Buffer.from(`${letter!.value!.toString().slice(0, -4)}AAAA`))).toBeUndefined();
  });
});

test("a sender that goes away leaves nothing", async () => {
  const socket = connect(host.port, "127.0.0.1");
  socket.write("POST /e HTTP/1.1\r\nHost: p\r\nContent-Length: 500\r\n\r\n{");
  await new Promise((resolve) => setTimeout(resolve, 50));
  socket.destroy();
  expect((await post(envelope())).status).toBe(204);
  expect([host.events.length, host.letters.length]).toEqual([1, 0]);
});

// The host on node:http answers as the other hosts do: problems, methods, request ids, and the
// sender's address behind a proxy.
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cookiesIn, setCookie, sharedDomain } from "../../../infra/http/direct/cookies.ts";
import { directHost, send } from "../../../infra/http/direct/direct-host.ts";
import { perMinute, perSecond } from "../../../infra/http/direct/per-second.ts";
import { type ListeningServer, listen } from "../../../infra/http/listen.ts";
import { Unavailable } from "../../../infra/runtime/errors.ts";
import { openLog } from "../../../infra/runtime/log.ts";

const lines: string[] = [];
const log = openLog({ app: "direct", level: "info", to: { write: (line) => void lines.push(line) } });
let host: ListeningServer;
let url: string;

beforeAll(async () => {
  const listener = directHost(
    [
      {
        path: "/c/",
        methods: {
          GET: (visit) => {
            const { rest, query, address, isSecure, host: named } = visit;
            send(
              visit,
              200,
              { "Content-Type": "application/json" },
              JSON.stringify({ rest, query, address, isSecure, named }),
            );
          },
        },
      },
      { path: "/full", methods: { POST: () => Promise.reject(new Unavailable("no room", 2)) } },
      {
        path: "/broken",
        methods: {
          GET: () => {
            throw new TypeError("a secret of ours");
          },
        },
      },
      { path: "/pre", methods: { OPTIONS: (visit) => send(visit, 204, { "Access-Control-Allow-Origin": "*" }) } },
    ],
    { trustedProxies: ["loopback", "10.0.0.0/8"], log },
  );
  host = await listen(listener, { host: "127.0.0.1", port: 0 });
  url = `http://127.0.0.1:${host.port}`;
});
afterAll(() => host.close());

/** Sends raw bytes that fetch refuses to send. */
const raw = (text: string): Promise<string> =>
  new Promise((resolve) => {
    const socket = connect(host.port, "127.0.0.1");
    let answer = "";
    socket.on("data", (chunk) => (answer += chunk));
    socket.on("close", () => resolve(answer));
    socket.end(text);
  });

describe("a host on node:http", () => {
  test("gives a route the segment behind its path and the query as they were sent", async () => {
    const response = await fetch(`${url}/c/a%2Fb?x=%0d%0a&y`);
    expect(await response.json()).toMatchObject({
      rest: "a%2Fb",
      query: "x=%0d%0a&y",
      named: `127.0.0.1:${host.port}`,
    });
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
  });

  test.each(["/", "/c", "/c/", "/c/a/b", "/C/a", "/constructor", "//c/a", "/c/a/"])(
    "%s is 404, as a problem",
    async (path) => {
      const answer = await raw(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
      expect(answer).toMatch(/^HTTP\/1\.1 404 /);
      const body = JSON.parse(answer.slice(answer.indexOf("\r\n\r\n")));
      expect(body).toMatchObject({ code: "not_found", instance: path, type: "urn:tributary:problem:not_found" });
    },
  );

  test.each(["PUT", "DELETE", "constructor", "TRACE"])("%s is 405 and says what the path takes", async (method) => {
    const answer = await raw(`${method} /c/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    // The parser refuses a word that is not an HTTP method.
    expect(answer).toMatch(
      method === "constructor" ? /^HTTP\/1\.1 400 / : /^HTTP\/1\.1 405 .*Allow: GET, HEAD, OPTIONS\r/s,
    );
  });

  test("OPTIONS says the methods, unless the route has an answer of its own", async () => {
    const plain = await fetch(`${url}/c/a`, { method: "OPTIONS" });
    expect([plain.status, plain.headers.get("allow")]).toEqual([204, "GET, HEAD, OPTIONS"]);
    const own = await fetch(`${url}/pre`, { method: "OPTIONS" });
    expect([own.status, own.headers.get("access-control-allow-origin")]).toEqual([204, "*"]);
  });

  test("HEAD is answered as GET, without the body", async () => {
    const response = await fetch(`${url}/c/a`, { method: "HEAD" });
    expect([response.status, await response.text()]).toEqual([200, ""]);
    expect(Number(response.headers.get("content-length"))).toBeGreaterThan(10);
  });

  test("a path that is none of its routes is another listener's, where there is one", async () => {
    const both = await listen(
      directHost([{ path: "/a", methods: { GET: (visit) => send(visit, 200, {}, "direct") } }], {
        trustedProxies: [],
        log,
        otherwise: (request, response) => void response.end(`other ${request.method} ${request.url}`),
      }),
      { host: "127.0.0.1", port: 0 },
    );
    const ask = async (path: string, method = "GET") =>
      fetch(`http://127.0.0.1:${both.port}${path}`, { method }).then(async (answer) => [
        answer.status,
        await answer.text(),
      ]);
    expect(await ask("/a")).toEqual([200, "direct"]);
    expect(await ask("/a/b?c")).toEqual([200, "other GET /a/b?c"]);
    expect((await ask("/a", "PUT"))[0]).toBe(405);
    await both.close();
  });

  test("a request id is taken when it is one, else made", async () => {
    const idOf = async (given: string) =>
      (await fetch(`${url}/c/a`, { headers: { "x-request-id": given } })).headers.get("x-request-id");
    expect(await idOf("mine-1")).toBe("mine-1");
    expect(await idOf("not one")).toMatch(/^[0-9a-f-]{36}$/);
  });

  test("only a trusted proxy says who the sender is, and whether it came by https", async () => {
    const asked = async (headers: Record<string, string>) => (await fetch(`${url}/c/a`, { headers })).json();
    expect(
      await asked({ "x-forwarded-for": "203.0.113.9, 198.51.100.7, 10.1.2.3", "x-forwarded-proto": "https" }),
    ).toMatchObject({ address: "198.51.100.7", isSecure: true });
    expect(await asked({})).toMatchObject({ address: "127.0.0.1", isSecure: false });
  });

  test("without trusted proxies no header says who the sender is", async () => {
    const alone = await listen(
      directHost(
        [{ path: "/a", methods: { GET: (visit) => send(visit, 200, {}, `${visit.address} ${visit.isSecure}`) } }],
        {
          trustedProxies: [],
          log,
        },
      ),
      { host: "127.0.0.1", port: 0 },
    );
    const headers = { "x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https" };
    expect(await (await fetch(`http://127.0.0.1:${alone.port}/a`, { headers })).text()).toBe("127.0.0.1 false");
    await alone.close();
  });

  test("a host that can be none is left out", async () => {
    const answer = await raw("GET /c/a HTTP/1.1\r\nHost: evil.example/<b>\r\nConnection: close\r\n\r\n");
    expect(answer).toContain('"named":""');
  });

  test("what a route throws becomes an answer: 503 with Retry-After, and 500 that says nothing", async () => {
    const full = await fetch(`${url}/full`, { method: "POST" });
    expect([full.status, full.headers.get("retry-after")]).toEqual([503, "2"]);
    const broken = await fetch(`${url}/broken`);
    expect([broken.status, await broken.text()]).toEqual([500, expect.not.stringContaining("secret")]);
    expect(lines.join()).toContain("a secret of ours");
  });
});

describe("cookies that a page and our hosts share", () => {
  test("are found by their whole name, a few of them, and only when they can be one", () => {
    const header = "x_svc_cid=no; _svc_cid=one;_svc_cid = two; _svc_cid=%00; _svc_cidx=no; _svc_cid; =; _svc_cid=";
    expect(cookiesIn(header, "_svc_cid")).toEqual(["one", "two"]);
    expect(cookiesIn(Array.from({ length: 4_000 }, () => "_svc_cid=a").join(";"), "_svc_cid")).toHaveLength(4);
    expect(cookiesIn(undefined, "_svc_cid")).toEqual([]);
  });

  test("are set for the common parent of two hosts, and never with a value that would need encoding", () => {
    expect(setCookie({ name: "_svc_cid", value: "a-b", maxAgeSec: 60, domain: "shop.example", isSecure: true })).toBe(
      "_svc_cid=a-b; Max-Age=60; Path=/; Domain=shop.example; SameSite=Lax; Secure",
    );
    expect(() => setCookie({ name: "a", value: "b; Domain=evil", maxAgeSec: 1, isSecure: false })).toThrow(RangeError);
  });

  test.each([
    ["go.shop.example", "www.shop.example", "shop.example"],
    ["go.shop.example:8443", "shop.example", "shop.example"],
    ["a.b.shop.example", "c.b.shop.example", "b.shop.example"],
    ["shop.example", "shop.example", undefined],
    ["go.tracker.example", "www.shop.example", undefined],
    ["127.0.0.1:80", "127.0.0.1", undefined],
    ["10.0.0.1", "9.0.0.1", undefined],
    ["", "shop.example", undefined],
  ])("%s and %s share %s", (one, other, shared) => expect(sharedDomain(one, other)).toBe(shared));
});

test("a limit a second lets that many of a key through, others beside it, and all again a second later", () => {
  let now = 10_000;
  const limit = perSecond(2, () => now);
  expect([1, 2, 3].map(() => limit.take("a"))).toEqual([true, true, false]);
  expect(limit.take("b")).toBe(true);
  now = 11_000;
  expect(limit.take("a")).toBe(true);
});

test("a limit a minute lets that many of a key through in a minute", () => {
  let now = 120_000;
  const limit = perMinute(2, () => now);
  expect([1, 2, 3].map(() => limit.take("a"))).toEqual([true, true, false]);
  now += 59_999;
  expect(limit.take("a")).toBe(false);
  now += 1;
  expect(limit.take("a")).toBe(true);
});

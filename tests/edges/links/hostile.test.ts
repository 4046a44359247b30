// Hostile requests to a tracking link: it only leads to the stored page, breaks no header, and
// costs no memory.
import { Agent, request } from "node:http";
import { connect } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { mint } from "../../../domain/click-id.ts";
import { targetUrl } from "../../../domain/links/tracked-link.ts";
import type { ReferenceRows } from "../../../domain/reference/reference.ts";
import { campaign, linkId, noon, referenceWith } from "../../support/builders.ts";
import { browser, deviceOf, type LinkHost, linkKeys, openLinkHost } from "../../support/link-host.ts";

let rows: Partial<ReferenceRows> = {};
let host: LinkHost;
beforeAll(async () => {
  host = await openLinkHost({ reference: () => referenceWith(rows), clock: () => noon });
});
afterAll(() => host.close());
beforeEach(() => {
  rows = {};
});

/** Everything that comes back for these bytes; the connection is ended after them. */
const raw = (lines: readonly string[]): Promise<string> =>
  new Promise((resolve) => {
    const socket = connect(host.port, "127.0.0.1");
    let answer = "";
    socket.on("data", (chunk) => (answer += chunk.toString("latin1")));
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(answer));
    socket.end(`${[...lines, "Connection: close", "", ""].join("\r\n")}`, "latin1");
  });
const statusOf = (answer: string): number => Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1]);
const headerOf = (answer: string, name: string): readonly string[] =>
  [...answer.split("\r\n\r\n")[0]!.matchAll(new RegExp(`^${name}: (.*)$`, "gim"))].map(([, value]) => value!.trim());
const get = (path: string, ...more: readonly string[]) =>
  raw([`GET ${path} HTTP/1.1`, "Host: go.shop.example", `User-Agent: ${browser}`, ...more]);

describe("where a visitor may be sent", () => {
  test.each([
    "?url=https://evil.example",
    "?destination_url=//evil.example&next=https:evil.example",
    "?//evil.example/..",
    "?@evil.example",
    "?%23@evil.example/",
    "?a=%0d%0aLocation:%20https://evil.example",
    "?a=%0d%0aSet-Cookie:%20x=1&%0aX-Y:%20z=1",
    "?a=%E2%80%AE&b=%00&__proto__=1&constructor=2",
    `?${"a=1&".repeat(900)}`,
  ])("%s leads to the stored page alone, in one header", async (query) => {
    const answer = await get(`/c/promo${query}`);
    expect(statusOf(answer)).toBe(302);
    const [to, ...others] = headerOf(answer, "location");
    expect(others).toEqual([]);
    expect([new URL(to!).origin, new URL(to!).pathname]).toEqual(["https://shop.example", "/"]);
    expect(headerOf(answer, "set-cookie")).toHaveLength(1);
    expect(headerOf(answer, "x-y")).toEqual([]);
  });

  test.each([
    "javascript:alert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "//evil.example",
    "https://user:pass@shop.example/",
    "not a page",
    "",
  ])("%s is no page, whatever was stored: 404", async (destination_url) => {
    rows = { campaigns: [campaign({ destination_url })] };
    expect(statusOf(await get("/c/promo"))).toBe(404);
  });

  test("a stored page with a line break in it breaks no header", async () => {
    rows = { campaigns: [campaign({ destination_url: "https://shop.example/a\r\nX-Y: 1" })] };
    const answer = await get("/c/promo");
    expect([statusOf(answer), headerOf(answer, "x-y")]).toEqual([302, []]);
  });

  test("a query that is longer than any page's is left out of the target, and stored with the visit", async () => {
    const answer = await get(`/c/promo?a=${"x".repeat(5_000)}`);
    expect(headerOf(answer, "location")[0]!.length).toBeLessThan(100);
    expect(host.stored.at(-1)!.url!.length).toBeGreaterThan(5_000);
  });

  test("a thousand parameters are carried over in a millisecond or two", () => {
    const query = Array.from({ length: 1_000 }, (_, n) => `a${n}`)
      .join("&")
      .slice(0, 4_096);
    const began = process.cpuUsage();
    for (let n = 0; n < 20; n += 1) targetUrl("https://shop.example/", query, null);
    expect(process.cpuUsage(began).user / 1_000 / 20).toBeLessThan(20);
  });
});

describe("requests that are none of ours", () => {
  test.each([
    ["an unknown code", "/c/no-link", 404],
    ["a code of two letters", "/c/ab", 404],
    ["a code of 10 KB", `/c/${"a".repeat(10_240)}`, 404],
    ["a code with a slash in it", "/c/promo/x", 404],
    ["an encoded slash", "/c/promo%2f..", 404],
    ["an encoded dot path", "/c/%2e%2e", 404],
    ["upper case", "/c/PROMO", 404],
    ["a name of every object", "/c/constructor", 404],
    ["SQL", "/c/promo'--", 404],
    ["a trailing slash", "/c/promo/", 404],
    ["no code", "/c/", 404],
    ["an absolute address", "http://evil.example/c/promo", 404],
  ])("%s is %s: 404", async (_, path, status) => {
    const answer = await get(path);
    expect([statusOf(answer), headerOf(answer, "location")]).toEqual([status, []]);
  });

  test("an address that is longer than all headers may be is refused, and the host goes on", async () => {
    expect(statusOf(await get(`/c/promo?${"x".repeat(20_000)}`))).toBe(400);
    expect(statusOf(await get("/c/promo"))).toBe(302);
  });

  test.each(["POST", "PUT", "DELETE", "TRACE", "PATCH"])("%s is 405", async (method) => {
    const answer = await raw([`${method} /c/promo HTTP/1.1`, "Host: x", "Content-Length: 0"]);
    expect([statusOf(answer), headerOf(answer, "allow")]).toEqual([405, ["GET, HEAD, OPTIONS"]]);
  });
});

describe("headers that lie", () => {
  test.each([
    ["another site's", "evil.example", null],
    ["a name with a line feed's code", "go.shop.example%0d%0ax", null],
    ["a quoted one", 'go".shop.example', null],
    ["the shop's own tracking host", "go.shop.example", "shop.example"],
    ["the same with a port", "go.shop.example:8443", "shop.example"],
    ["a parent of the shop", "example", null],
  ])(
    "Host is %s: the cookie is for what it shares with the stored page, or for the host alone",
    async (_, named, domain) => {
      const answer = await raw(["GET /c/promo HTTP/1.1", `Host: ${named}`, `User-Agent: ${browser}`]);
      expect(statusOf(answer)).toBe(302);
      expect(new URL(headerOf(answer, "location")[0]!).hostname).toBe("shop.example");
      expect(/Domain=([^;]*)/.exec(headerOf(answer, "set-cookie")[0]!)?.[1] ?? null).toBe(domain);
    },
  );

  test("a host that can be none is not stored", async () => {
    await raw(["GET /c/promo HTTP/1.1", "Host: <script>", `User-Agent: ${browser}`]);
    expect(host.stored.at(-1)!.url).toBeNull();
  });

  test("without a trusted proxy the address is that of the connection", async () => {
    await get("/c/promo", "X-Forwarded-For: 8.8.8.8", "Forwarded: for=8.8.8.8");
    expect(host.stored.at(-1)!.ip).toBe("127.0.0.1");
  });

  test("a jar of 4 KB of cookies is read for the two that are ours, and forged ones are nothing", async () => {
    const forged = mint(linkId, noon, new Uint8Array(8), linkKeys[0]).slice(0, -1);
    const ours = `_svc_cid=${forged}A; _svc_cid=${"z".repeat(400)}; _svc_did=phone; _svc_did=other`;
    const jar = `${"x=y; ".repeat(700)}${ours}`;
    const answer = await get("/c/promo", `Cookie: ${jar}`);
    expect(statusOf(answer)).toBe(302);
    expect(answer).not.toContain(`${forged}A`);
    expect(host.stored.at(-1)!.did).toBe(deviceOf("phone"));
  });

  test("bytes above ASCII, and an agent of a hundred e-mail addresses, are stored without harm", async () => {
    const agent = "ana@correo.example ".repeat(100);
    const answer = await raw(["GET /c/promo HTTP/1.1", "Host: x", `User-Agent: ${agent}`, "Referer: \xff\xfe"]);
    expect(statusOf(answer)).toBe(302);
    expect(host.stored.at(-1)!.ua ?? "").not.toContain("correo");
  });

  test("what a visitor wrote is left out when it holds more personal data than is looked through", async () => {
    const many = Array.from({ length: 1_500 }, (_, n) => `${n}@a.mx`)
      .join(",")
      .slice(0, 12_000);
    const before = host.stored.length;
    expect(statusOf(await get("/c/promo", `Referer: https://x.example/?${many}`))).toBe(302);
    expect(host.stored).toHaveLength(before + 1);
    expect(JSON.stringify(host.stored.at(-1))).not.toContain("@a.mx");
  });
});

test("visits of one address beyond 600 in a second are 429, and unknown codes leave nothing behind", async () => {
  // The clock of the limit does not move.
  const still = await openLinkHost({ reference: () => referenceWith(rows), clock: () => noon, now: () => 0 });
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  const ask = (path: string): Promise<number> =>
    new Promise((resolve, reject) => {
      const options = { agent, port: still.port, path, headers: { "user-agent": browser } };
      request(options, (response) => response.resume().on("end", () => resolve(response.statusCode!)))
        .on("error", reject)
        .end();
    });
  const all = (paths: readonly string[]) => Promise.all(paths.map(ask));
  const unknown = await all(Array.from({ length: 1_000 }, (_, n) => `/c/unknown-${n}`));
  expect([new Set(unknown), still.stored]).toEqual([new Set([404]), []]);
  const known = await all(Array.from({ length: 620 }, () => "/c/promo"));
  expect([known.filter((status) => status === 302).length, known.filter((status) => status === 429).length]).toEqual([
    600, 20,
  ]);
  expect(still.stored).toHaveLength(600);
  agent.destroy();
  await still.close();
});

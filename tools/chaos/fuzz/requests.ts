// The attacks of a hostile sender: bodies, encodings, headers, wrong lengths, slow and broken
// connections. Every choice is drawn from one random source.
import { gzipSync } from "node:zlib";
import { between, hurtingBody, pick, type Random } from "./bodies.ts";
import type { Conversation, Step } from "./exchange.ts";

export interface Attack {
  /** The attack in a few words. */
  readonly name: string;
  /** All of them run at once, because one after the other would be no attack. */
  readonly conversations: readonly Conversation[];
}
export interface Attacker {
  readonly token: string;
  readonly clientId: number;
  readonly random: Random;
  readonly mostBytes: number;
}
type Draw = (attacker: Attacker) => Attack;

const PATIENCE_MS = 30_000;
const conversation = (...steps: Step[]): Conversation => ({ steps, ending: "wait", patienceMs: PATIENCE_MS });
const alone = (name: string, ...steps: Step[]): Attack => ({ name, conversations: [conversation(...steps)] });
const lines = (...all: readonly string[]): string => `${all.join("\r\n")}\r\n\r\n`;
const head = (token: string, ...more: readonly string[]): string =>
  lines("POST /ingest/batch HTTP/1.1", "Host: edge", `Authorization: Bearer ${token}`, ...more);
const json = "Content-Type: application/json";
const post = (token: string, body: Buffer, ...more: readonly string[]): readonly Step[] => [
  head(token, json, `Content-Length: ${body.length}`, ...more),
  body,
];
const hurting = ({ random, mostBytes, clientId }: Attacker) =>
  hurtingBody(random, Math.ceil(mostBytes * random() ** 3), clientId);

const chunksOf = (random: Random, body: Buffer): readonly Buffer[] => {
  const size = pick(random, [1_000, 16_384, 65_536, 1_000_000]);
  const chunks: Buffer[] = [];
  for (let at = 0; at < body.length; at += size) {
    const chunk = body.subarray(at, at + size);
    chunks.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from("\r\n"));
  }
  return [Buffer.concat([...chunks, Buffer.from("0\r\n\r\n")])];
};

const goodEvents = ({ random, clientId }: Attacker, count: number): Buffer => {
  const now = Date.now();
  const events = Array.from({ length: count }, (_, n) => ({
    t: "page_view",
    ts: now - n,
    cid: clientId,
    did: `device-${between(random, 1, 1_000)}`,
    url: "https://shop.example/",
  }));
  return Buffer.from(JSON.stringify({ events }));
};

let bomb: Buffer | undefined;
/** 64 MiB of zeros, 64 KiB gzipped. */
const bombBytes = (): Buffer => {
  bomb ??= gzipSync(Buffer.alloc(64 * 1024 * 1024), { level: 9 });
  return bomb;
};

const wrongGzip: Readonly<Record<string, (body: Buffer, random: Random) => Buffer>> = {
  "plain said to be gzip": (body) => body,
  "a cut gzip": (body, random) => gzipSync(body).subarray(0, between(random, 1, 200)),
  "a changed gzip": (body, random) => {
    const bytes = gzipSync(body);
    bytes[between(random, 10, bytes.length - 1)]! ^= 255;
    return bytes;
  },
  "gzip in gzip": (body) => gzipSync(gzipSync(body)),
  "a bomb": () => bombBytes(),
  "bombs in a row": () => Buffer.concat(new Array(20).fill(bombBytes())),
  "a gzip that hides its length": (body) => Buffer.concat([gzipSync(body, { level: 1 }), gzipSync(Buffer.alloc(0))]),
  "garbage behind a gzip": (body) => Buffer.concat([gzipSync(body, { level: 1 }), Buffer.from("garbage")]),
};

/** Request heads that are odd by themselves; nothing follows them. */
const heads: Readonly<Record<string, (attacker: Attacker) => string>> = {
  "a thousand headers": ({ token }) => head(token, ...Array.from({ length: 1_000 }, (_, n) => `X-${n}: 1`)),
  "headers of 100 KB": ({ token }) => head(token, `X: ${"x".repeat(100_000)}`),
  "a long path": () => lines(`GET /${"a".repeat(14_000)} HTTP/1.1`, "Host: edge"),
  "a path of escapes": ({ random }) =>
    lines(`GET /${pick(random, ["%00", "%ff", "%", "%2e%2e/", "..;/"])} HTTP/1.1`, "Host: e"),
  "ten thousand parameters": () => lines(`GET /health?${"a=1&".repeat(3_000)} HTTP/1.1`, "Host: edge"),
  "an odd method": ({ random, token }) =>
    head(token).replace(
      "POST",
      pick(random, ["TRACE", "CONNECT", "PROPFIND", "PURGE", "post", "PRI", "DELETE", "HEAD"]),
    ),
  "CONNECT to a host": () => lines("CONNECT example.com:443 HTTP/1.1", "Host: example.com"),
  "an upgrade": ({ random }) =>
    lines(
      "GET /health HTTP/1.1",
      "Host: e",
      "Connection: Upgrade",
      `Upgrade: ${pick(random, ["h2c", "websocket", "TLS/1.0"])}`,
      "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
    ),
  "the preface of HTTP/2": () => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u0004\0\0\0\0\0",
  "HTTP/0.9": () => "GET /health\r\n\r\n",
  "HTTP/1.0": ({ token }) => head(token, "Content-Length: 0").replace("1.1", "1.0"),
  "a TLS hello": () => "\u0016\u0003\u0001\u0002\0\u0001\0\u0001\ufffd\u0003\u0003",
  "no host": () => lines("GET /health HTTP/1.1"),
  "an absolute address": () => lines("GET http://example.com/health HTTP/1.1", "Host: edge"),
  "two tokens": ({ token }) => head(token, `Authorization: Bearer ${token}`, "Content-Length: 0"),
  "a wrong token": ({ random }) =>
    head(`trb_ingest_${String(random()).padEnd(43, "0").slice(0, 43)}`, "Content-Length: 0"),
  "a token of 10 KB": () => head("x".repeat(10_000), "Content-Length: 0"),
  "an expectation": ({ token, random }) =>
    head(token, `Expect: ${pick(random, ["100-continue", "200-ok", ""])}`, "Content-Length: 10"),
  "a length and chunks": ({ token }) => head(token, "Content-Length: 4", "Transfer-Encoding: chunked"),
  "a length of 10^30": ({ token }) => head(token, json, `Content-Length: 1${"0".repeat(30)}`),
  "a length of 100 GB": ({ token }) => head(token, json, "Content-Length: 100000000000"),
  "forwarded addresses": ({ token }) => head(token, `X-Forwarded-For: ${"1.2.3.4, ".repeat(500)}`, "Content-Length: 0"),
  "a folded header": ({ token }) => head(token, "X: a\r\n b", "Content-Length: 0"),
  "a lonely line end": ({ token }) => head(token, "X: a\rX-Other: b", "Content-Length: 0"),
  "a receipt of no batch": ({ token }) =>
    lines(`GET /ingest/receipts/bat_${"A".repeat(50)} HTTP/1.1`, "Host: e", `Authorization: Bearer ${token}`),
  "a range of the health": () => lines("GET /health HTTP/1.1", "Host: e", "Range: bytes=0-1", "Connection: close"),
};

const types = [
  "text/plain",
  "application/json; charset=utf-16",
  "application/json;charset=utf-8",
  "multipart/form-data",
  "application/json; boundary=x; charset=latin1",
  "",
];

const draws: readonly (readonly [weight: number, Draw])[] = [
  [
    8,
    (attacker) => {
      const { kind, body } = hurting(attacker);
      return alone(kind, ...post(attacker.token, body));
    },
  ],
  [
    4,
    (attacker) => {
      const { kind, body } = hurting(attacker);
      return alone(
        `${kind}, in chunks`,
        head(attacker.token, json, "Transfer-Encoding: chunked"),
        ...chunksOf(attacker.random, body),
      );
    },
  ],
  [
    4,
    (attacker) => {
      const { kind, body } = hurting(attacker);
      return alone(`${kind}, gzipped`, ...post(attacker.token, gzipSync(body, { level: 1 }), "Content-Encoding: gzip"));
    },
  ],
  [
    4,
    (attacker) => {
      const [name, spoil] = pick(attacker.random, Object.entries(wrongGzip));
      return alone(
        name,
        ...post(attacker.token, spoil(goodEvents(attacker, 500), attacker.random), "Content-Encoding: gzip"),
      );
    },
  ],
  [
    10,
    (attacker) => {
      const [name, write] = pick(attacker.random, Object.entries(heads));
      return alone(name, write(attacker));
    },
  ],
  [
    2,
    (attacker) => {
      const body = goodEvents(attacker, 3);
      const type = pick(attacker.random, types);
      return alone(
        `a body of type ${type}`,
        head(attacker.token, `Content-Type: ${type}`, `Content-Length: ${body.length}`),
        body,
      );
    },
  ],
  [
    2,
    (attacker) => {
      const body = goodEvents(attacker, 20);
      const said = body.length + pick(attacker.random, [-10, -1, 1, 1_000]);
      return alone("a length that is not so", head(attacker.token, json, `Content-Length: ${said}`), body);
    },
  ],
  [
    2,
    (attacker) => {
      const body = goodEvents(attacker, 100);
      const cuts = [...body.subarray(0, 60)].flatMap((byte): readonly Step[] => [Buffer.from([byte]), 100]);
      return {
        name: "a byte every 100 ms, then gone",
        conversations: [
          { ...conversation(head(attacker.token, json, `Content-Length: ${body.length}`), ...cuts), ending: "destroy" },
        ],
      };
    },
  ],
  [
    2,
    (attacker) => {
      const { kind, body } = hurting(attacker);
      const most = Math.floor(body.length * 0.99);
      return {
        name: `${kind}, gone at 99 %`,
        conversations: [
          { ...conversation(...post(attacker.token, body).slice(0, 1), body.subarray(0, most)), ending: "destroy" },
        ],
      };
    },
  ],
  [
    1,
    ({ random }) => ({
      name: "connections that say nothing",
      conversations: new Array(between(random, 50, 200)).fill({
        ...conversation(),
        patienceMs: between(random, 1_000, 15_000),
      }),
    }),
  ],
  [
    1,
    ({ random, token }) => ({
      name: "heads that do not end",
      conversations: new Array(between(random, 10, 50)).fill(
        conversation(head(token).slice(0, between(random, 10, 100))),
      ),
    }),
  ],
  [
    2,
    ({ random, token }) => {
      const request = pick(random, [
        lines("GET / HTTP/1.1", "Host: e"),
        lines("OPTIONS /ingest/batch HTTP/1.1", "Host: e"),
        head(token, json, "Content-Length: 2") + "{}",
      ]);
      return alone("thousands of requests in one write", request.repeat(between(random, 100, 3_000)));
    },
  ],
  [
    3,
    (attacker) => {
      const body = goodEvents(attacker, between(attacker.random, 1, 300));
      const steps = post(attacker.token, body);
      return alone("the same good batch twice, garbage behind", ...steps, ...steps, "\0\0garbage\r\n\r\n");
    },
  ],
  [
    3,
    (attacker) => {
      const body = goodEvents(attacker, between(attacker.random, 1, 300));
      return {
        name: "a good batch, its side ended",
        conversations: [{ ...conversation(...post(attacker.token, body)), ending: "end" }],
      };
    },
  ],
];

const TOTAL = draws.reduce((sum, [weight]) => sum + weight, 0);

/** Draws the next attack of this sender. */
export const drawAttack = (attacker: Attacker): Attack => {
  let at = attacker.random() * TOTAL;
  for (const [weight, draw] of draws) {
    at -= weight;
    if (at < 0) return draw(attacker);
  }
  return draws[0]![1](attacker);
};

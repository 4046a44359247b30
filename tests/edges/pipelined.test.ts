// Bytes after a request on its connection never change its answer: garbage, a broken second
// request, or an end of the sender's side.
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type EdgeHost, openEdgeHost } from "../support/edge-host.ts";
import { pageView } from "../support/shop.ts";

/** The log is slow, so the bytes after the first request arrive while it is under way. */
const STORING_MS = 150;
let edge: EdgeHost;
beforeAll(async () => {
  edge = await openEdgeHost(() => sleep(STORING_MS));
});
afterAll(() => edge.close());
let before = 0;
beforeEach(() => {
  before = edge.stored.length;
});

let ids = 0;
const next = (): number => {
  ids += 1;
  return ids;
};
const bodyOf = (count = 1): { readonly ids: readonly string[]; readonly body: string } => {
  const events = Array.from({ length: count }, () => pageView({ event_id: `e${next()}`, ts: Date.now() }));
  return { ids: events.map(({ event_id }) => String(event_id)), body: JSON.stringify({ events }) };
};
const head = (length: string): string =>
  ["POST /ingest/batch HTTP/1.1", "Host: x", "Authorization: Bearer 1", length, "", ""].join("\r\n");
const post = (body: string): string => `${head(`Content-Length: ${Buffer.byteLength(body)}`)}${body}`;
const chunked = (body: string): string =>
  `${head("Transfer-Encoding: chunked")}${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n0\r\n\r\n`;

/** How long the test waits for a second answer that must not come. */
const QUIET_MS = 500;

/** Everything that comes back until the connection ends, or is quiet after `count` answers. */
const sent = (bytes: readonly string[], count: number, isEnded = false): Promise<readonly string[]> =>
  new Promise((resolve) => {
    const socket = connect({ port: edge.port, host: "127.0.0.1", allowHalfOpen: true });
    let answer = "";
    const statuses = (): readonly string[] => answer.match(/HTTP\/1\.1 \d{3}/g)?.map((line) => line.slice(9)) ?? [];
    socket.setTimeout(20_000, () => socket.destroy());
    socket.on("data", (chunk) => {
      answer += chunk;
      if (statuses().length >= count) socket.setTimeout(QUIET_MS);
    });
    socket.on("error", () => undefined);
    socket.once("end", () => socket.destroy());
    socket.once("close", () => resolve(statuses()));
    socket.once("connect", async () => {
      for (const each of bytes) {
        socket.write(each);
        await sleep(20);
      }
      if (isEnded) socket.end();
    });
  });

const broken: readonly (readonly [string, string])[] = [
  ["bytes that are no request", "\0\u0001garbage\r\n\r\n"],
  ["more of the body than was announced", '{"events":[]}'],
  ["a request with a broken header", "GET /health HTTP/1.1\r\nHost: x\r\nbroken header\r\n\r\n"],
  [
    "a request of two lengths",
    "POST /ingest/batch HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
  ],
  ["a request with chunks and a length", `${head("Transfer-Encoding: chunked\r\nContent-Length: 5")}0\r\n\r\n`],
  ["headers without end", `GET / HTTP/1.1\r\nHost: x\r\nX: ${"x".repeat(20_000)}`],
];

test.each(broken)("%s behind a good request: that one is answered for what was stored", async (_, behind) => {
  for (const write of [(good: string) => [good + behind], (good: string) => [good, behind]]) {
    const first = bodyOf();
    const statuses = await sent(write(post(first.body)), 2);
    expect(statuses).toEqual(["200", "400"]);
    expect(edge.stored).toContain(first.ids[0]);
  }
});

test("behind two good requests too, and their answers come in order", async () => {
  const [first, second] = [bodyOf(2), bodyOf(3)];
  const statuses = await sent([post(first.body) + chunked(second.body) + broken[0]![1]], 3);
  expect(statuses).toEqual(["200", "200", "400"]);
  expect(edge.stored.slice(before).sort()).toEqual([...first.ids, ...second.ids].sort());
});

test("a sender that ends its side after the request still gets its answer", async () => {
  const { ids: sentIds, body } = bodyOf();
  expect(await sent([post(body)], 1, true)).toEqual(["200"]);
  expect(edge.stored).toContain(sentIds[0]);
});

test.each([
  [
    "a length and chunks",
    (body: string) => head(`Content-Length: ${body.length}\r\nTransfer-Encoding: chunked`) + body,
  ],
  ["chunks that are hidden", (body: string) => head("Transfer-Encoding: chunked, identity") + body],
  ["two lengths", (body: string) => head(`Content-Length: ${body.length}\r\nContent-Length: 3`) + body],
  ["a length in hexadecimal", (body: string) => head(`Content-Length: 0x${body.length.toString(16)}`) + body],
  ["a negative length", (body: string) => head("Content-Length: -1") + body],
  ["a space before the colon", (body: string) => head(`Content-Length : ${body.length}`) + body],
  ["line ends without CR", (body: string) => post(body).replaceAll("\r\n", "\n")],
  ["a chunk of a wrong size", (body: string) => `${head("Transfer-Encoding: chunked")}5\r\n${body}\r\n0\r\n\r\n`],
])("%s: refused, and nothing is stored", async (_, request) => {
  const { body } = bodyOf();
  expect(await sent([request(body)], 1)).toEqual(["400"]);
  await sleep(2 * STORING_MS);
  expect(edge.stored.slice(before)).toEqual([]);
});

test("of thousands of requests in one write a few are answered, and the loop is free for others", async () => {
  const request = "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n";
  const answers = await sent([request.repeat(4_000)], 32);
  expect(answers).toEqual(new Array(32).fill("404"));
  expect(await sent([request], 1)).toEqual(["404"]);
});

test("requests that wait for their answers may be as many as they like, one after the other", async () => {
  const socket = connect({ port: edge.port, host: "127.0.0.1" });
  let answers = 0;
  const all = new Promise<void>((resolve) =>
    socket.on("data", () => {
      answers += 1;
      if (answers === 200) resolve();
      else socket.write("GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n");
    }),
  );
  socket.write("GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n");
  await all;
  socket.destroy();
});

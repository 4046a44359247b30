// Stalled connections are cut, and bodies under way are limited for each sender, so no sender
// blocks another.
import { createHash } from "node:crypto";
import type { RequestListener } from "node:http";
import { connect, type Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ListeningServer, listen } from "../../infra/http/listen.ts";
import { Problem } from "../../infra/http/problem.ts";
import { withBody } from "../../infra/http/read-body.ts";
import { openHalf, untilCut } from "../support/half-open.ts";

const MIB = 1024 * 1024;
let server: ListeningServer;
let holdsUntil: Promise<void> | undefined;

const answer: RequestListener = async (request, response) => {
  if (request.url === "/nothing") return void response.writeHead(404).end("nothing here");
  const sender = { token: String(request.headers["x-token"]), address: String(request.headers["x-address"]) };
  try {
    const size = await withBody(request, sender, async (body) => {
      await holdsUntil;
      return body.length;
    });
    response.end(String(size));
  } catch (problem) {
    response.writeHead(problem instanceof Problem ? problem.status : 500, { Connection: "close" });
    response.end((problem as Error).message);
  }
};

beforeAll(async () => {
  server = await listen((request, response) => void answer(request, response), { host: "127.0.0.1", port: 0 });
});
afterAll(() => server.close());

const open = (port = server.port): Promise<Socket> => openHalf(port);
const head = (length: number, token = "a"): string =>
  `POST / HTTP/1.1\r\nHost: x\r\nX-Token: ${token}\r\nX-Address: ${token}\r\nContent-Length: ${length}\r\n\r\n`;
const send = (body: Uint8Array, token: string, headers: Record<string, string> = {}) =>
  fetch(`http://127.0.0.1:${server.port}/`, {
    method: "POST",
    headers: { "x-token": token, "x-address": token, ...headers },
    body: body as unknown as string,
  });

test("connections with no byte, half a header or half a body are answered and cut", async () => {
  const [silent, half, stalled] = [await open(), await open(), await open()];
  half.write("POST / HTTP/1.1\r\nHost:");
  stalled.write(`${head(1_000)}{"eve`);
  const cut = await Promise.all([silent, half, stalled].map(untilCut));
  for (const { ms } of cut) expect(ms).toBeLessThan(20_000);
  expect(cut[1]!.answer).toMatch(/^HTTP\/1\.1 400/);
  expect(cut[2]!.answer).toMatch(/^HTTP\/1\.1 400[\s\S]*comes too slowly/);
});

test("a port that closes waits for what it answers, and a second for connections on which nothing came", async () => {
  let letGo = (): void => undefined;
  const held = new Promise<void>((resolve) => (letGo = resolve));
  const asked: (string | undefined)[] = [];
  const answerLate: RequestListener = (request, response) => {
    asked.push(request.url);
    void held.then(() => response.end(`answered ${request.url}`));
  };
  const slow = await listen(answerLate, { host: "127.0.0.1", port: 0 });
  const opened = await Promise.all(Array.from({ length: 4 }, () => open(slow.port)));
  const [, half, asking, late] = opened as [Socket, Socket, Socket, Socket];
  half.write("GET / HTTP/1.1\r\nHost:");
  asking.write("GET /before HTTP/1.1\r\nHost: x\r\n\r\n");
  await expect.poll(() => asked).toEqual(["/before"]);
  const closed = slow.close();
  late.write("GET /after HTTP/1.1\r\nHost: x\r\n\r\n");
  const answers = Promise.all([asking, late].map(untilCut));
  const first = await Promise.race([closed.then(() => "closed"), untilCut(opened[0]!).then(() => "cut")]);
  letGo();
  const began = performance.now();
  await closed;
  expect([first, performance.now() - began < 5_000]).toEqual(["cut", true]);
  expect((await answers).map(({ answer }) => answer.split("\r\n").at(-1))).toEqual([
    "answered /before",
    "answered /after",
  ]);
});

test("eleven stalled bodies of one token leave room for every other sender", async () => {
  const stalled = await Promise.all(Array.from({ length: 11 }, () => open()));
  for (const socket of stalled) {
    socket.write(head(7 * MIB, "greedy"));
    socket.write(Buffer.alloc(6 * MIB));
  }
  // Fast enough not to be cut, even if the machine is busy for seconds.
  const trickle = setInterval(() => {
    for (const socket of stalled) if (socket.writable) socket.write(Buffer.alloc(16_384));
  }, 1_000);
  // Ten such bodies fit into the share of a token; the next body is refused.
  await expect.poll(async () => (await send(Buffer.alloc(8 * MIB), "greedy")).status, { timeout: 20_000 }).toBe(429);
  const other = await send(Buffer.alloc(25 * MIB), "modest");
  expect([other.status, await other.text()]).toEqual([200, String(25 * MIB)]);
  clearInterval(trickle);
  for (const socket of stalled) socket.destroy();
});

test("what gzipped bodies become is counted before it is inflated, so 90 of them hold no more than a few", async () => {
  let release = (): void => undefined;
  holdsUntil = new Promise((resolve) => {
    release = resolve;
  });
  // About 20 MiB in 0.6 MiB: the most that gzip may save before it counts as a bomb.
  const line = (n: number): string =>
    `${createHash("sha256").update(String(n)).digest("base64url")}${"x".repeat(1_500)}`;
  const plain = Buffer.from(Array.from({ length: 13_500 }, (_, n) => line(n)).join(""));
  const packed = gzipSync(plain);
  expect(plain.length / packed.length).toBeGreaterThan(20);
  expect(plain.length / packed.length).toBeLessThan(50);
  const before = process.memoryUsage().arrayBuffers;
  const answers = Promise.all(
    Array.from({ length: 90 }, (_, n) => send(packed, `zip-${n % 30}`, { "content-encoding": "gzip" })),
  );
  let peak = 0;
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().arrayBuffers - before);
  }, 20);
  setTimeout(release, 3_000);
  const statuses = (await answers).map(({ status }) => status);
  clearInterval(watch);
  holdsUntil = undefined;
  expect(statuses.filter((status) => ![200, 413, 429, 503].includes(status))).toEqual([]);
  expect(peak).toBeLessThan(600 * MIB);
});

test("a body that inflates more than fifty times is refused", async () => {
  const answer = await send(gzipSync(Buffer.alloc(20 * MIB)), "bomb", { "content-encoding": "gzip" });
  expect([answer.status, await answer.text()]).toEqual([413, "the body inflates more than 50 times: send it plain"]);
});

test("a gzipped body that hides its length is copied a few times, not once for each of its chunks", async () => {
  const letters = Buffer.alloc(25 * MIB - 1);
  for (let n = 0; n < letters.length; n += 1) letters[n] = ((n * 7_919) >> 8) ^ ((n >> 13) & 63);
  const honest = gzipSync(letters, { level: 1 });
  // The length in the last bytes is that of the last member, which is empty.
  const hiding = Buffer.concat([honest, gzipSync(Buffer.alloc(0))]);
  const cpuMs = async (body: Buffer): Promise<number> => {
    const before = process.cpuUsage();
    const answer = await send(body, "hiding", { "content-encoding": "gzip" });
    expect([answer.status, await answer.text()]).toEqual([200, String(letters.length)]);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  };
  const ratios: number[] = [];
  for (let n = 0; n < 3; n += 1) ratios.push((await cpuMs(hiding)) / (await cpuMs(honest)));
  expect(Math.min(...ratios)).toBeLessThan(4);
});

test("an address that leaves a thousand connections idle gets no further one, and others get theirs", async () => {
  const from = (localAddress: string): Promise<Socket> =>
    new Promise((resolve) => {
      const socket = connect({ port: server.port, host: "127.0.0.1", localAddress });
      socket.on("error", () => undefined);
      socket.once("connect", () => resolve(socket));
    });
  const ask = async (socket: Socket): Promise<string> => {
    socket.write(`${head(2)}{}`);
    return new Promise((resolve) =>
      socket.once("data", (chunk) => resolve(String(chunk))).once("close", () => resolve("cut")),
    );
  };
  const idle: Socket[] = [];
  for (let n = 0; n < 1_000; n += 1) idle.push(await from("127.0.0.2"));
  expect(await ask(await from("127.0.0.2"))).toBe("cut");
  const other = await from("127.0.0.3");
  expect(await ask(other)).toMatch(/^HTTP\/1\.1 200/);
  for (const socket of idle) socket.destroy();
  const again = async (): Promise<string> => {
    const socket = await from("127.0.0.2");
    return ask(socket).finally(() => socket.destroy());
  };
  await expect.poll(again).toMatch(/^HTTP\/1\.1 200/);
  other.destroy();
});

const chunked = (token: string): string =>
  `POST / HTTP/1.1\r\nHost: x\r\nX-Token: ${token}\r\nX-Address: ${token}\r\nTransfer-Encoding: chunked\r\n\r\n`;

test("a body in pieces of one byte is cut after a thousand, and one in pieces of a line is read", async () => {
  const tiny = await open();
  const cut = untilCut(tiny);
  tiny.write(`${chunked("tiny")}${"1\r\nx\r\n".repeat(1_000_000)}`);
  const { answer, ms } = await cut;
  expect(answer).toMatch(/^HTTP\/1\.1 400[\s\S]*too small pieces/);
  expect(ms).toBeLessThan(10_000);

  const lines = await open();
  const said = new Promise<string>((resolve) => lines.once("data", (some) => resolve(String(some))));
  lines.write(`${chunked("lines")}${`28\r\n${"y".repeat(40)}\r\n`.repeat(20_000)}0\r\n\r\n`);
  expect(await said).toMatch(/^HTTP\/1\.1 200[\s\S]*800000/);
  lines.destroy();
});

test("tiny chunks behind an answer are cut, and a body that ends there keeps its connection", async () => {
  const endless = await open();
  const cut = untilCut(endless);
  const began = chunked("endless").replace("POST / ", "POST /nothing ");
  endless.write(`${began}${"1\r\nx\r\n".repeat(1_000)}`);
  const more = setInterval(() => endless.write("1\r\nx\r\n".repeat(100)), 20);
  const { answer, ms } = await cut;
  clearInterval(more);
  expect(answer).toMatch(/^HTTP\/1\.1 404/);
  expect(ms).toBeLessThan(10_000);

  const ends = await open();
  let said = "";
  ends.on("data", (some) => (said += some));
  ends.write(`${began}1\r\nx\r\n0\r\n\r\n`);
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  ends.write(`${began}0\r\n\r\n`);
  await expect.poll(() => said.match(/HTTP\/1\.1 404/g)?.length).toBe(2);
  ends.destroy();
});

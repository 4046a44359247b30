// The proxy of the suite: every kind of bad weather has its effect, is counted, and ends.
import { connect, createServer, type Server, type Socket } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { openProxy, type TcpProxy } from "../../tools/chaos/stage/proxy.ts";

let echo: Server;
let proxy: TcpProxy;
beforeAll(async () => {
  echo = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => echo.listen(0, "127.0.0.1", resolve));
  proxy = await openProxy(
    () => (echo.address() as { port: number }).port,
    () => 0.5,
  );
});
afterAll(async () => {
  await proxy.close();
  echo.close();
});
beforeEach(() => {
  proxy.reset();
  proxy.weather({});
});

interface Heard {
  readonly bytes: Buffer;
  readonly error: string | null;
}
const opened: Socket[] = [];
/**
 * Sends the text and collects the answer until it is as long, the connection ends, or the time is
 * over.
 */
const asked = (text: string, withinMs = 3_000): Promise<Heard> =>
  new Promise((resolve) => {
    const socket = connect(proxy.port, "127.0.0.1", () => socket.write(text));
    opened.push(socket);
    const pieces: Buffer[] = [];
    let error: string | null = null;
    const done = () => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ bytes: Buffer.concat(pieces), error });
    };
    const timer = setTimeout(done, withinMs);
    socket.on("data", (piece: Buffer) => {
      pieces.push(piece);
      if (Buffer.concat(pieces).length >= text.length) done();
    });
    socket.on("error", (problem: NodeJS.ErrnoException) => {
      error = problem.code ?? problem.message;
    });
    socket.on("close", done);
  });

test("in calm weather everything passes and nothing is counted", async () => {
  expect(await asked("hello")).toEqual({ bytes: Buffer.from("hello"), error: null });
  expect(Object.values(proxy.damage()).every((count) => count === 0)).toBe(true);
});

test("silence swallows what comes, and the connection stays open", async () => {
  proxy.weather({ blackhole: true });
  const silent = asked("hello", 1_000);
  await expect.poll(() => proxy.damage().swallowed).toBe(5);
  expect(await silent).toEqual({ bytes: Buffer.alloc(0), error: null });
});

test("an answer is cut after the byte that was named, and the connection ended", async () => {
  proxy.weather({ cutAfter: 3 });
  expect((await asked("hello", 60_000)).bytes.length).toBeLessThanOrEqual(3);
  expect(proxy.damage().cut).toBe(1);
});

test("one bit of the byte that was named is flipped, once", async () => {
  proxy.weather({ corruptAt: 1 });
  expect((await asked("hello")).bytes.toString()).toBe("hdllo");
  expect((await asked("hello")).bytes.toString()).toBe("hello");
  expect(proxy.damage().flipped).toBe(1);
});

test("refused connections are reset, delayed and sliced bytes arrive", async () => {
  proxy.weather({ refuses: true });
  expect((await asked("hello")).error).toBe("ECONNRESET");
  expect(proxy.damage().refused).toBe(1);
  proxy.weather({ latencyMs: 20, jitterMs: 10, slice: 1 });
  expect((await asked("hello")).bytes.toString()).toBe("hello");
  expect(proxy.damage()).toMatchObject({ delayed: 2, sliced: 4 });
});

test("a reset ends every connection and says how many there were", async () => {
  proxy.weather({ blackhole: true });
  const pending = asked("x".repeat(10), 60_000);
  await expect.poll(() => proxy.damage().swallowed, { timeout: 20_000 }).toBe(10);
  expect(proxy.reset()).toBe(2);
  await pending;
});

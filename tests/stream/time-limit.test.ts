// A time limit that passes while the own loop is blocked is none of the store.
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, expect, test } from "vitest";
import { correctedClient } from "../../infra/kafka/client/kafkajs-corrected.ts";
import type { ClientProducer } from "../../infra/kafka/client/types.ts";
import { openProducer } from "../../infra/kafka/producer.ts";
import { openRedis } from "../../infra/redis/client.ts";
import { timeLimit, within } from "../../infra/runtime/timing/time-limit.ts";

/**
 * A server with a loop of its own: it answers each request, or command of Redis, 50 ms later, but
 * "silence" never.
 */
const SERVER = `
const { createServer } = require("node:net");
const { parentPort } = require("node:worker_threads");
const server = createServer((socket) => {
  socket.on("error", () => undefined);
  socket.on("data", (data) => {
    if (String(data).includes("silence")) return;
    const commands = String(data).match(/^[*]/gm) ?? [""];
    setTimeout(() => socket.write("+OK\\r\\n".repeat(commands.length)), 50);
  });
});
server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));
`;

let server: Worker;
let port: number;
beforeAll(async () => {
  server = new Worker(SERVER, { eval: true });
  [port] = (await once(server, "message")) as [number];
});
afterAll(() => server.terminate());

const block = (ms: number): void => {
  for (const end = performance.now() + ms; performance.now() < end; );
};
const asked = async (text: string): Promise<{ readonly socket: Socket; readonly answer: Promise<string> }> => {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  const answer = once(socket, "data").then(([data]) => String(data));
  socket.write(text);
  return { socket, answer };
};

test("an answer that came while the loop was blocked is in time", async () => {
  const { socket, answer } = await asked("question");
  const limited = within(500, answer, "too late");
  block(900);
  expect(await limited).toBe("+OK\r\n");
  socket.destroy();
});

test("a silent store is given up after ten times the limit, though the loop is late at every turn", async () => {
  const began = performance.now();
  let isOver = false;
  timeLimit(60, () => {
    isOver = true;
  });
  while (!isOver && performance.now() - began < 5_000) {
    block(150);
    await sleep(1);
  }
  expect(performance.now() - began).toBeGreaterThan(600);
  expect(performance.now() - began).toBeLessThan(2_000);
});

test("a store that is silent is given up after the time, and a blocked loop does not add to it", async () => {
  const { socket, answer } = await asked("silence");
  const began = performance.now();
  await expect(within(500, answer, "too late")).rejects.toThrow("too late");
  expect(performance.now() - began).toBeGreaterThan(400);
  const blocked = performance.now();
  const limited = within(500, answer, "too late");
  block(900);
  await expect(limited).rejects.toThrow("too late");
  // All of it but the turn in which the loop was blocked.
  expect(performance.now() - blocked).toBeGreaterThan(900 + 400);
  socket.destroy();
});

test("a limit that is cleared is never over", async () => {
  let isOver = false;
  const timer = timeLimit(100, () => {
    isOver = true;
  });
  await sleep(50);
  clearTimeout(timer);
  await sleep(150);
  expect(isOver).toBe(false);
});

test("a command of Redis is answered in time after a blocked loop, and given up when there is silence", async () => {
  const redis = openRedis(`redis://127.0.0.1:${port}`, 500);
  redis.options.enableReadyCheck = false;
  try {
    await redis.connect();
    const answer = redis.set("a", "b");
    // The command is sent in the next turn.
    await new Promise((resolve) => setImmediate(resolve));
    block(900);
    expect(await answer).toBe("OK");
    await expect(redis.set("silence", "b")).rejects.toThrow("Command timed out");
  } finally {
    redis.disconnect();
  }
});

test("commands of Redis that were given up while it was loading are not sent later", async () => {
  const received: string[] = [];
  let isLoading = true;
  // While it loads its data, the client asks again each second.
  const loading = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", (data) => {
      const text = String(data);
      received.push(text);
      const info = `loading:${isLoading ? 1 : 0}\r\nloading_eta_seconds:1\r\n`;
      const isAsked = /\binfo\b/i.test(text);
      socket.write(isAsked ? `$${info.length}\r\n${info}\r\n` : "+OK\r\n".repeat(text.match(/^[*]/gm)!.length));
    });
  }).listen(0, "127.0.0.1");
  await once(loading, "listening");
  const redis = openRedis(`redis://127.0.0.1:${(loading.address() as AddressInfo).port}`, 1_500);
  try {
    const early = redis.set("late", "a");
    const together = redis.pipeline().set("late", "b").set("late", "c").exec();
    await expect(early).rejects.toThrow("Command timed out");
    expect((await together)!.map(([error]) => error?.message)).toEqual(["Command timed out", "Command timed out"]);
    isLoading = false;
    const piped = redis.pipeline().set("next", "d").set("next", "e").exec();
    expect(await Promise.all([redis.set("next", "f"), piped])).toEqual([
      "OK",
      [
        [null, "OK"],
        [null, "OK"],
      ],
    ]);
    const texts = received.join("");
    expect([texts.match(/next/g)?.length, texts.match(/late/g)]).toEqual([3, null]);
  } finally {
    redis.disconnect();
    loading.close();
  }
});

test("a producer keeps a client whose answer came while the loop was blocked", async () => {
  let clients = 0;
  const opened: Socket[] = [];
  const newClient = () => {
    clients += 1;
    return {
      connect: async () => undefined,
      disconnect: async () => undefined,
      sendBatch: async () => {
        const { socket, answer } = await asked("question");
        opened.push(socket);
        setImmediate(() => block(900));
        await answer;
      },
    } as unknown as ClientProducer;
  };
  const { send } = openProducer(newClient, "", { sendDeadlineMs: 500 });
  await send([{ topic: "t", key: null, value: Buffer.from("v") }]);
  expect(clients).toBe(1);
  for (const socket of opened) socket.destroy();
});

test("the client of Kafka looks for overdue requests in the next turn after a blocked loop", async () => {
  correctedClient();
  const { createRequire } = await import("node:module");
  const RequestQueue = createRequire(import.meta.url)("kafkajs/src/network/requestQueue/index.js");
  const timedOut: string[] = [];
  const queue = new RequestQueue({ ...{ maxInFlightRequests: 9, requestTimeout: 1_000, clientId: "c", broker: "b" } });
  const { socket, answer } = await asked("question");
  const request = (name: string) => ({
    sentAt: Date.now(),
    requestTimeout: 1_000,
    timeoutRequest: () => void timedOut.push(name),
  });
  queue.inflight.set(1, request("answered"));
  queue.inflight.set(2, request("silent"));
  void answer.then(() => queue.inflight.delete(1));
  queue.scheduleRequestTimeoutCheck();
  block(1_800);
  await sleep(50);
  expect(timedOut).toEqual([]);
  await sleep(1_200);
  expect(timedOut).toEqual(["silent"]);
  queue.destroy();
  socket.destroy();
}, 10_000);

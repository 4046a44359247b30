// A request that waits for a silent log and is given up by its callers is no longer held in memory.

import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { LogUnavailable } from "../../infra/kafka/errors.ts";
import { Queue } from "../../infra/kafka/queue.ts";
import { type Chunk, Requests } from "../../infra/kafka/requests.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** A client that connects and then stays silent. */
class SilentRequests extends Requests {
  constructor() {
    super((() => ({})) as never);
  }
  override attempt(_chunk: Chunk): Promise<void> {
    return new Promise(() => undefined);
  }
}

test("messages whose callers have given up do not stay in memory while a request is silent", async () => {
  const limits = { messages: 1_000, bytes: 64 * 1024 * 1024 };
  const queue = new Queue(new SilentRequests(), "", { deadlineMs: 5, maxWaiting: limits, maxInFlight: 1 });
  const publish = async (): Promise<void> => {
    const message = () => ({ topic: "t", key: null, value: Buffer.alloc(1024 * 1024, 1) });
    await Promise.allSettled(Array.from({ length: 20 }, () => queue.publish([message()])));
    await sleep(10);
  };
  await publish();
  collect();
  const before = process.memoryUsage().arrayBuffers;
  for (let n = 0; n < 10; n += 1) await publish();
  collect();
  const grownMiB = (process.memoryUsage().arrayBuffers - before) / 1024 / 1024;
  expect(grownMiB, "of 200 MiB that were published and given up").toBeLessThan(60);
});

test("each call that waits is given up at its own time, none before it", async () => {
  const limits = { messages: 1_000, bytes: 1024 * 1024 };
  const queue = new Queue(new SilentRequests(), "", { deadlineMs: 40, maxWaiting: limits, maxInFlight: 1 });
  const waited = async (): Promise<number> => {
    const began = performance.now();
    await expect(queue.publish([{ topic: "t", key: null, value: Buffer.alloc(1) }])).rejects.toThrow(/acknowledge/);
    return performance.now() - began;
  };
  const calls: Promise<number>[] = [];
  for (let n = 0; n < 5; n += 1) {
    calls.push(waited());
    await sleep(15);
  }
  for (const ms of await Promise.all(calls)) expect(ms).toBeGreaterThanOrEqual(40);
  expect(queue.waiting()).toEqual({ messages: 0, bytes: 0 });
});

/** A log whose first answer comes late and asks for a repetition, as a moved partition does. */
class MovingRequests extends Requests {
  readonly log: string[] = [];
  #isMoved = false;
  constructor() {
    super((() => ({})) as never);
  }
  override async attempt(chunk: Chunk): Promise<void> {
    if (!this.#isMoved) {
      this.#isMoved = true;
      await sleep(20);
      throw new LogUnavailable();
    }
    await new Promise(setImmediate);
    for (const { messages } of chunk.byTopic) for (const { value } of messages) this.log.push(value!.toString());
  }
}

test.each([
  { calls: 3, each: 600, bytes: 10 },
  // Larger than one request may be.
  { calls: 2, each: 1_400, bytes: 10 },
  { calls: 2, each: 12, bytes: 600_000 },
])("the messages of a call keep their order when a request is repeated: $calls of $each", async (given) => {
  const requests = new MovingRequests();
  const limits = { messages: 50_000, bytes: 64 * 1024 * 1024 };
  const queue = new Queue(requests, "", { deadlineMs: 10_000, maxWaiting: limits, maxInFlight: 4 });
  const call = (of: number) =>
    Array.from({ length: given.each }, (_, n) => ({
      topic: "t",
      key: null,
      value: Buffer.from(`${of} ${n} `.padEnd(given.bytes, ".")),
    }));
  await Promise.all(Array.from({ length: given.calls }, (_, of) => queue.publish(call(of))));
  const numbersOf = (of: number) =>
    requests.log.map((text) => text.split(" ")).flatMap(([call, n]) => (call === `${of}` ? [Number(n)] : []));
  for (let of = 0; of < given.calls; of += 1)
    expect(numbersOf(of)).toEqual(Array.from({ length: given.each }, (_, n) => n));
});

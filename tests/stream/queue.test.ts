// A request that waits for a silent log and is given up by its callers is no longer held in memory.

import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
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

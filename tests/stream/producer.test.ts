// How messages wait for the log: collected without a fixed linger, bounded, in order, and given up
// in time. The client is a stand-in; tests/contracts/kafka.test.ts has the real one.
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { ClientProducer } from "../../infra/kafka/client/types.ts";
import { LogUnavailable, Overloaded, type ProducerSettings } from "../../infra/kafka/kafka.ts";
import { openProducer } from "../../infra/kafka/producer.ts";
import type { OutputMessage } from "../../stream/messages.ts";

interface Request {
  readonly client: number;
  readonly messages: readonly string[];
  readonly topics: readonly string[];
  readonly acknowledge: () => void;
  readonly fail: (error: Error) => void;
}
const away = Object.assign(new Error("away"), { name: "KafkaJSConnectionError" });
const message = (value: string | number, topic = "events.raw"): OutputMessage => ({
  topic,
  key: "k",
  value: Buffer.from(String(value)),
});
const many = (count: number, from = 0) => Array.from({ length: count }, (_, n) => message(from + n));

/** A producer on clients that hold each request until the test answers it. */
const opened = (settings: ProducerSettings = {}) => {
  const requests: Request[] = [];
  let clients = 0;
  const disconnected: number[] = [];
  const newClient = () => {
    const client = ++clients;
    return {
      connect: async () => {},
      disconnect: async () => void disconnected.push(client),
      sendBatch: ({ topicMessages }: { topicMessages: { topic: string; messages: { value: Buffer }[] }[] }) =>
        new Promise<void>((acknowledge, fail) =>
          requests.push({
            client,
            topics: topicMessages.map(({ topic }) => topic),
            messages: topicMessages.flatMap(({ messages }) => messages.map(({ value }) => value.toString())),
            acknowledge,
            fail,
          }),
        ),
    } as unknown as ClientProducer;
  };
  return { producer: openProducer(newClient, "p.", settings), requests, disconnected };
};
const turn = () => vi.advanceTimersByTimeAsync(0);
const outcome = (promise: Promise<void>) => promise.then(() => "done").catch((error: Error) => error.name);

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setImmediate", "performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

describe("publish", () => {
  test("callers that arrive together share one request", async () => {
    const { producer, requests } = opened();
    const calls = Array.from({ length: 50 }, (_, n) => producer.publish([message(n)]));
    await turn();
    expect(requests.map(({ messages }) => messages.length)).toEqual([50]);
    requests[0]!.acknowledge();
    await Promise.all(calls);
  });

  test("what arrives while a request is under way goes out together when it returns", async () => {
    const { producer, requests } = opened();
    void producer.publish([message("first")]);
    await turn();
    for (let n = 0; n < 20; n++) {
      void producer.publish([message(n)]);
      await turn();
    }
    expect(requests.length).toBe(1);
    requests[0]!.acknowledge();
    await turn();
    expect(requests.map(({ messages }) => messages.length)).toEqual([1, 20]);
  });

  test("full requests go out side by side, up to the limit, none above 1,000 messages", async () => {
    const { producer, requests } = opened({ maxInFlight: 3 });
    const calls = Array.from({ length: 9 }, (_, n) => producer.publish(many(4_500).slice(n * 500, (n + 1) * 500)));
    await turn();
    expect(requests.map(({ messages }) => messages.length)).toEqual([1_000, 1_000, 1_000]);
    for (let n = 0; n < 5; n++) {
      requests[n]!.acknowledge();
      await turn();
    }
    expect(requests.flatMap(({ messages }) => messages)).toEqual(many(4_500).map(({ value }) => value!.toString()));
    await Promise.all(calls);
  });

  test("a call is done only when its last message is", async () => {
    const { producer, requests } = opened();
    const call = outcome(producer.publish(many(1_500)));
    let isDone = false;
    void call.then(() => (isDone = true));
    await turn();
    requests[0]!.acknowledge();
    await turn();
    expect(isDone).toBe(false);
    requests[1]!.acknowledge();
    expect(await call).toBe("done");
  });

  test("all topics go into one request, with the prefix of the cluster", async () => {
    const { producer, requests } = opened();
    void producer.publish([message(1), message(2, "claims"), message(3)]);
    await turn();
    expect(requests[0]!.topics).toEqual(["p.events.raw", "p.claims"]);
    expect(requests[0]!.messages).toEqual(["1", "3", "2"]);
  });

  test("what does not fit into the queue is refused whole, and room is made by acknowledgements", async () => {
    const { producer, requests } = opened({ maxWaiting: { messages: 10, bytes: 1_000_000 } });
    const first = producer.publish(many(8));
    expect(await outcome(producer.publish(many(3)))).toBe("Overloaded");
    expect(producer.waiting().messages).toBe(8);
    await turn();
    requests[0]!.acknowledge();
    await first;
    expect(producer.waiting()).toEqual({ messages: 0, bytes: 0 });
    const second = producer.publish(many(3));
    await turn();
    requests[1]!.acknowledge();
    await second;
  });

  test("the queue is bounded by bytes too", async () => {
    const { producer } = opened({ maxWaiting: { messages: 1_000, bytes: 100 } });
    void producer.publish([{ topic: "t", key: null, value: Buffer.alloc(90) }]);
    await expect(producer.publish([{ topic: "t", key: null, value: Buffer.alloc(20) }])).rejects.toThrow(Overloaded);
  });

  test("a failed request is repeated as it was, in time", async () => {
    const { producer, requests } = opened();
    const call = producer.publish(many(3));
    await turn();
    requests[0]!.fail(away);
    await turn();
    expect(producer.isAvailable()).toBe(false);
    await vi.advanceTimersByTimeAsync(100);
    expect(requests[1]!.messages).toEqual(["0", "1", "2"]);
    requests[1]!.acknowledge();
    await call;
    expect(producer.isAvailable()).toBe(true);
  });

  test("without an acknowledgement a publish fails after its deadline, and nothing of it is sent later", async () => {
    const { producer, requests } = opened();
    const hanging = outcome(producer.publish([message("hanging")]));
    await turn();
    const queued = outcome(producer.publish([message("queued")]));
    await vi.advanceTimersByTimeAsync(2_000);
    expect([await hanging, await queued]).toEqual(["LogUnavailable", "LogUnavailable"]);
    expect(producer.waiting()).toEqual({ messages: 0, bytes: 0 });
    requests[0]!.acknowledge();
    await turn();
    const next = producer.publish([message("next")]);
    await turn();
    expect(requests.map(({ messages }) => messages)).toEqual([["hanging"], ["next"]]);
    requests[1]!.acknowledge();
    await next;
  });

  test("a client that has been silent for 30 s is replaced", async () => {
    const { producer, requests, disconnected } = opened();
    const lost = outcome(producer.publish([message("lost")]));
    await vi.advanceTimersByTimeAsync(30_100);
    expect(await lost).toBe("LogUnavailable");
    expect(disconnected).toEqual([1]);
    const call = producer.publish([message("next")]);
    await turn();
    expect(requests.at(-1)).toMatchObject({ client: 2, messages: ["next"] });
    requests.at(-1)!.acknowledge();
    await call;
  });

  test("what the log refuses for good fails the call with its error", async () => {
    const { producer, requests } = opened();
    const call = producer.publish([message(1)]);
    const rejected = expect(call).rejects.toMatchObject({ type: "MESSAGE_TOO_LARGE" });
    await turn();
    requests[0]!.fail(
      Object.assign(new Error("too large"), { name: "KafkaJSProtocolError", type: "MESSAGE_TOO_LARGE" }),
    );
    await rejected;
  });

  test("closing waits for what was taken and takes nothing more", async () => {
    const { producer, requests, disconnected } = opened();
    const call = outcome(producer.publish([message(1)]));
    await turn();
    const closing = producer.close();
    expect(await outcome(producer.publish([message(2)]))).toBe("LogUnavailable");
    expect(disconnected).toEqual([]);
    requests[0]!.acknowledge();
    await closing;
    expect(await call).toBe("done");
    expect(disconnected).toEqual([1]);
  });
});

describe("send", () => {
  test("one chunk after the other, the next only when the one before is acknowledged", async () => {
    const { producer, requests } = opened();
    const call = producer.send(many(2_100));
    for (const [n, size] of [1_000, 1_000, 100].entries()) {
      await turn();
      expect(requests.length).toBe(n + 1);
      expect(requests[n]!.messages.length).toBe(size);
      requests[n]!.acknowledge();
    }
    await call;
  });

  test("a chunk is bounded by bytes too", async () => {
    const { producer, requests } = opened();
    void producer.send(Array.from({ length: 6 }, () => ({ topic: "t", key: null, value: Buffer.alloc(1024 * 1024) })));
    await turn();
    expect(requests[0]!.messages.length).toBe(4);
  });

  test("a repetition never overtakes: the request that was given up is cut off with its client", async () => {
    const { producer, requests, disconnected } = opened({ sendDeadlineMs: 1_000 });
    const call = producer.send([message(1)]);
    const rejected = expect(call).rejects.toThrow(LogUnavailable);
    await vi.advanceTimersByTimeAsync(1_100);
    await rejected;
    expect(disconnected).toEqual([1]);
    expect(requests.length).toBe(1);
  });
});

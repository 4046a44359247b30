// What a consumer makes of a fetch: batches of the client's own class, handed over by hand.
import { createRequire } from "node:module";
import { describe, expect, test } from "vitest";
import type { ClientBatch, ClientConsumer } from "../../infra/kafka/client/types.ts";
import { openConsumer } from "../../infra/kafka/consumer.ts";
import { LogGap } from "../../infra/kafka/kafka.ts";

const Batch = createRequire(import.meta.url)("kafkajs/src/consumer/batch.js");

/** A fetch that asked for `asked` and got `offsets`; those of `marks` end transactions. */
const fetched = (asked: number, offsets: readonly number[], marks: readonly number[] = []): ClientBatch["batch"] =>
  new Batch("t", String(asked), {
    partition: 0,
    highWatermark: "100",
    abortedTransactions: [],
    messages: offsets.map((offset) => ({
      offset: String(offset),
      timestamp: "5",
      key: null,
      value: Buffer.from(String(offset)),
      headers: {},
      isControlRecord: marks.includes(offset),
    })),
  });

/** What the consumer hands over of one fetch, and how it ends. */
const given = async (
  batch: ClientBatch["batch"],
): Promise<{ readonly seen: readonly number[]; readonly crashes: readonly Error[] }> => {
  const seen: number[] = [];
  const crashes: Error[] = [];
  const listeners = new Map<string, (event: { payload: object }) => void>();
  let eachBatch: (given: ClientBatch) => Promise<void> = async () => undefined;
  const client = {
    events: { HEARTBEAT: "heartbeat", GROUP_JOIN: "join", REBALANCING: "rebalancing", CRASH: "crash" },
    on: (name: string, listener: (event: { payload: object }) => void) => listeners.set(name, listener),
    connect: async () => undefined,
    subscribe: async () => undefined,
    run: async (run: { eachBatch: typeof eachBatch }) => {
      ({ eachBatch } = run);
      listeners.get("join")!({ payload: { memberId: "m", memberAssignment: { t: [0] } } });
    },
    disconnect: async () => undefined,
  };
  await openConsumer(() => client as unknown as ClientConsumer, "", {
    group: "g",
    topics: ["t"],
    onBatch: async ({ messages }) => void seen.push(...messages.map(({ offset }) => offset)),
    onOutOfRange: () => undefined,
    onCrash: (error) => crashes.push(error),
  });
  await eachBatch({
    ...{ batch, isRunning: () => true, isStale: () => false, heartbeat: async () => undefined },
    ...{ resolveOffset: () => undefined, commitOffsetsIfNecessary: async () => undefined },
  } as unknown as ClientBatch).catch(() => undefined);
  return { seen, crashes };
};

describe("a fetch", () => {
  test("without a gap is handed over, from the offset that was asked for", async () =>
    expect(await given(fetched(7, [5, 6, 7, 8]))).toEqual({ seen: [7, 8], crashes: [] }));

  test("that begins behind what was asked for ends the consumer", async () => {
    const { seen, crashes } = await given(fetched(7, [9, 10]));
    expect({ seen, crashes }).toEqual({ seen: [], crashes: [expect.any(LogGap)] });
    expect(crashes[0]!.message).toContain("asked for offset 7, got 9");
  });

  test("in which records are missing ends the consumer, and none of it is handed over", async () => {
    const { seen, crashes } = await given(fetched(7, [7, 8, 11]));
    expect({ seen, crashes }).toEqual({ seen: [], crashes: [expect.any(LogGap)] });
    expect(crashes[0]!.message).toContain("2 records are missing from 7 to 11");
  });

  test("may hold marks of transactions, which are no gap", async () =>
    expect(await given(fetched(7, [7, 8, 9], [8]))).toEqual({ seen: [7, 9], crashes: [] }));
});

// What a consumer does with a fetch. The batches are of the client's own class and passed by hand.
import { createRequire } from "node:module";
import { describe, expect, test } from "vitest";
import type { ClientBatch, ClientConsumer } from "../../infra/kafka/client/types.ts";
import { openConsumer } from "../../infra/kafka/consumer.ts";
import { LogGap, MembershipLost } from "../../infra/kafka/kafka.ts";
import type { Control } from "../../stream/messages.ts";

const Batch = createRequire(import.meta.url)("kafkajs/src/consumer/batch.js");

/** A fetch that was sent for `asked` and returned `offsets`; those in `marks` end transactions. */
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

/** The messages that the consumer passes on from one fetch, and how the fetch ends. */
const given = async (
  batch: ClientBatch["batch"],
  ask: (control: Control) => Promise<void> = async () => undefined,
  coordinator: () => Promise<void> = async () => undefined,
): Promise<{ readonly seen: readonly number[]; readonly crashes: readonly Error[]; readonly handedBack: unknown }> => {
  const seen: number[] = [];
  const crashes: Error[] = [];
  let handedBack: unknown;
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
    onBatch: async ({ messages }, control) => {
      seen.push(...messages.map(({ offset }) => offset));
      await ask(control);
    },
    onOutOfRange: () => undefined,
    onCrash: (error) => crashes.push(error),
  });
  await eachBatch({
    ...{ batch, isRunning: () => true, isStale: () => false, heartbeat: coordinator },
    ...{ resolveOffset: () => undefined, commitOffsetsIfNecessary: coordinator },
  } as unknown as ClientBatch).catch((error: unknown) => {
    handedBack = error;
  });
  return { seen, crashes, handedBack };
};

describe("a fetch", () => {
  test("without a gap is handed over, from the offset that was asked for", async () =>
    expect(await given(fetched(7, [5, 6, 7, 8]))).toMatchObject({ seen: [7, 8], crashes: [] }));

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
    expect(await given(fetched(7, [7, 8, 9], [8]))).toMatchObject({ seen: [7, 9], crashes: [] }));
});

describe("a coordinator that", () => {
  const { KafkaJSConnectionError, KafkaJSProtocolError } = createRequire(import.meta.url)("kafkajs/src/errors.js");
  const { createErrorFromCode } = createRequire(import.meta.url)("kafkajs/src/protocol/error.js");
  const moved: Error = new KafkaJSProtocolError(createErrorFromCode(16));
  const away: Error = new KafkaJSConnectionError("read ECONNRESET");
  const heartbeat = (control: Control) => control.heartbeat();
  const commit = (control: Control) => control.commit(8);

  test.each([
    ["has moved, at a heartbeat", moved, heartbeat],
    ["has moved, at a commit", moved, commit],
    ["is away, at a heartbeat", away, heartbeat],
  ])("%s: the batch is left and the client hears its own error, which makes it look again", async (_, error, ask) => {
    const refused: unknown[] = [];
    const outcome = await given(
      fetched(7, [7]),
      (control) =>
        ask(control).catch((lost: unknown) => {
          refused.push(lost);
          throw lost;
        }),
      () => Promise.reject(error),
    );
    expect(refused).toEqual([expect.any(MembershipLost)]);
    expect(outcome).toEqual({ seen: [7], crashes: [], handedBack: error });
  });
});

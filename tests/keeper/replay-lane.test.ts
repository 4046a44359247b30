// However the turn of a lane ends, none of its writes is under way afterwards.
import type { Pool } from "pg";
import { expect, test } from "vitest";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import type { Kafka } from "../../infra/kafka/kafka.ts";
import { workOff } from "../../modules/log/replays/replay-lane.ts";
import type { Replay, Segment } from "../../modules/log/replays/replays.ts";
import type { SinkPorts } from "../../stream/ports.ts";
import { step, stepsSink, toys } from "../support/toy.ts";

const wire = inMemoryWire(Object.values(toys));
const segmentOf = (partition: number): Segment => ({
  topic: toys.out.name,
  partition,
  start: 0,
  end: 1,
  skip_from: 0,
  skip_to: 0,
});
const batchOf = (partition: number) => {
  const data = step(`of-${partition}`);
  const event = {
    id: data.id,
    key: data.place,
    at: 1,
    receivedAt: 2,
    position: { topic: toys.out.name, partition, offset: 0 },
    data,
  };
  const message = {
    appendedAt: 2,
    offset: 0,
    key: Buffer.from(data.place),
    value: wire.encode(toys.out, event, null),
    headers: {},
  };
  return { topic: toys.out.name, partition, messages: [message], highWatermark: 1, appendedAt: 2 };
};
const replay = {
  ...{
    replay_id: "rpl_1",
    attempts: 1,
    state: "running",
    actor: "a test",
    hours: 1,
    from_at: 0,
    to_at: null,
    sinks: ["steps"],
    met: {},
  },
  ...{
    ranges: [segmentOf(0), segmentOf(1)],
    positions: {},
    requeued: 0,
    skipped: 0,
    suppressed: 0,
    refused: 0,
    errors: [],
  },
  ...{ created_at: 0, started_at: 0, moved_at: 0 },
} as unknown as Replay;

test("a lane that the log fails leaves its replay when the last write has ended, and begins no other", async () => {
  const order: string[] = [];
  let write: () => void = () => undefined;
  const mayWrite = new Promise<void>((resolve) => {
    write = resolve;
  });
  const store: SinkPorts["stores"]["clickhouse"] = {
    within: async (_, work) => {
      await mayWrite;
      await work(async () => undefined);
    },
  };
  let handOver: ((partition: number) => Promise<void>) | undefined;
  const kafka: Pick<Kafka, "replay"> = {
    replay: async ({ onBatch }) => {
      handOver = async (partition) => onBatch(batchOf(partition), async () => undefined);
      await handOver(0);
      throw new Error("the log is gone");
    },
  };
  const pool = {
    query: async (text: string) => {
      if (text.includes("positions = positions")) order.push("moved");
      return { rowCount: 1, rows: [] };
    },
  } as unknown as Pool;
  const left = workOff(
    replay,
    "one",
    {
      ...{
        wire,
        pool,
        stores: { clickhouse: store, postgres: store, redis: store },
        kafka: kafka as Kafka,
        admin: {} as never,
      },
      ...{
        topology: { name: "toy", nodes: [stepsSink], deadLetters: () => "dead.letters" },
        withholds: async () => undefined,
        knownRefusals: async () => new Set(),
      },
      traffic: async () => ({ late: 0, isFlowing: false }),
      ...{ retry: (_, once) => once(), log: { info: () => undefined, warn: () => undefined, error: () => undefined } },
    },
    () => false,
  ).catch((error: Error) => order.push(error.message));
  // One turn of the event loop: the failure has been handled, so whatever comes now is too late.
  await new Promise(setImmediate);
  await expect(handOver!(1)).rejects.toThrow();
  expect(order).toEqual([]);
  write();
  await left;
  expect(order).toEqual(["moved", "the log is gone"]);
});

// The writes of a replay, into a store that remembers insert tokens as ClickHouse does.
import { expect, test } from "vitest";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { openWrites } from "../../modules/log/replays/replay-writes.ts";
import type { Advance, OwnedReplay, Replay, Segment } from "../../modules/log/replays/replays.ts";
import type { Letter } from "../../stream/messages.ts";
import type { SinkPorts } from "../../stream/ports.ts";
import { type Step, step, stepsSink, toys } from "../support/toy.ts";

const wire = inMemoryWire(Object.values(toys));
const segment: Segment = { topic: toys.out.name, partition: 0, start: 0, end: 2, skip_from: 0, skip_to: 0 };
const messages = [step("a"), step("b")].map((data, offset) => {
  const event = {
    id: data.id,
    key: data.place,
    at: 1,
    receivedAt: 2,
    position: { topic: toys.out.name, partition: 0, offset },
    data,
  };
  return {
    offset,
    key: Buffer.from(data.place),
    value: wire.encode(toys.out, event, null),
    headers: {},
    appendedAt: 0,
  };
});

/** Acknowledges an insert with a repeated token without writing it. */
const forgetful = () => {
  const tokens = new Set<string>();
  const rows = new Map<string, Step>();
  const store: SinkPorts["stores"]["clickhouse"] = {
    within: async ({ token }, work) => {
      if (tokens.has(token)) return;
      tokens.add(token);
      await work(async (_, given) => {
        for (const row of given as readonly Step[]) rows.set(row.id, row);
      });
    },
  };
  return { rows, stores: { clickhouse: store, postgres: store, redis: store } };
};
const replayOf = (replay_id: string, attempts: number): Replay =>
  ({
    ...{
      replay_id,
      attempts,
      state: "running",
      actor: "a test",
      hours: 1,
      from_at: 0,
      to_at: null,
      sinks: ["steps"],
      met: {},
    },
    ...{ ranges: [segment], positions: {}, requeued: 0, skipped: 0, suppressed: 0, refused: 0, errors: [] },
    ...{ created_at: 0, started_at: 0, moved_at: 0 },
  }) as unknown as Replay;
const owned: OwnedReplay = {
  ...{ decide: async () => undefined, advance: async () => undefined, renew: async () => undefined },
  ...{ release: async () => undefined, end: async () => undefined },
};
const written = async (
  replay: Replay,
  stores: SinkPorts["stores"],
  isKnown: (letter: Letter) => boolean = () => false,
): Promise<readonly Advance[]> => {
  const advances: Advance[] = [];
  const advance = async (step: Advance) => void advances.push(step);
  const writes = openWrites(
    replay,
    { sinks: [stepsSink], ranges: [segment], owned: { ...owned, advance } },
    {
      ...{
        wire,
        stores,
        topology: { name: "toy", nodes: [stepsSink], deadLetters: () => "dead.letters" },
        withholds: async () => undefined,
        knownRefusals: async (letters: readonly Letter[]) => new Set(letters.filter(isKnown)),
      },
      ...{ retry: (_, once) => once(), log: { info: () => undefined, warn: () => undefined, error: () => undefined } },
    },
  );
  await writes.write({ topic: toys.out.name, partition: 0, messages });
  await writes.settled();
  return advances;
};

test(
  "R2: rows that were lost come back by a second replay of the same records, and by a second " + "attempt of the first",
  async () => {
    const { rows, stores } = forgetful();
    for (const replay of [replayOf("rpl_1", 1), replayOf("rpl_1", 2), replayOf("rpl_2", 1)]) {
      rows.clear();
      await written(replay, stores);
      expect([...rows.keys()], `${replay.replay_id}, attempt ${replay.attempts}`).toEqual(["a", "b"]);
    }
  },
);

test("what a store refuses is counted, and is an error unless it is a dead letter since it came", async () => {
  const refusing: SinkPorts["stores"]["clickhouse"] = {
    within: (_, work) => work(() => Promise.reject(Object.assign(new Error("no such number"), { verdict: "data" }))),
  };
  const stores = { clickhouse: refusing, postgres: refusing, redis: refusing };
  const isKnown = ({ position }: Letter) => position.offset === 0;
  expect(await written(replayOf("rpl_1", 1), stores, isKnown)).toMatchObject([
    {
      ...{ next: 2, requeued: 0, refused: 2 },
      errors: [{ file: `${toys.out.name}-0/0-2`, message: "offset 1, steps: refused_by_store: no such number" }],
    },
  ]);
});

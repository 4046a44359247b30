// A batch that a time limit has ended comes again in halves, and grows back.
import { expect, test } from "vitest";
import type { Control, InputMessage, OutputMessage } from "../../stream/messages.ts";
import { openPieces, SlowBatch } from "../../stream/pace/pieces.ts";
import type { Retry } from "../../stream/ports.ts";
import { sinkRunner } from "../../stream/sink/sink-runner.ts";
import { type Step, step, stepsSink, toy, toys } from "../support/toy.ts";
import { publish, worker, world } from "../support/world.ts";

const messages = (count: number, from = 0): readonly InputMessage[] =>
  Array.from({ length: count }, (_, n) => ({ offset: from + n, key: null, value: null, headers: {}, appendedAt: 0 }));

/** Pieces of one reader on the test's own clock, of batches in `toy.raw`. */
const reading = () => {
  const said: string[] = [];
  const say = (event: string, { partition, records, limit }: Readonly<Record<string, unknown>>): void =>
    void said.push([event, partition, records, limit].filter((part) => part !== undefined).join(" "));
  const log = { info: say, warn: say, error: say };
  const clock = { now: 0 };
  const pieces = openPieces("toy", { log }, () => clock.now);
  const tried: string[] = [];
  /** Hands over a batch. Pieces of more than `most` records are too slow. */
  const give = (count: number, most: number, over: Partial<Control> = {}, partition = 0, from = 0): Promise<void> => {
    const control = { heartbeat: async () => undefined, isCurrent: () => true, ...over } as Control;
    return pieces({ topic: "toy.raw", partition, messages: messages(count, from) }, control, async (piece) => {
      tried.push(`${piece.messages[0]!.offset}+${piece.messages.length}`);
      if (piece.messages.length > most) throw new SlowBatch("remember", new Error("too late"));
    });
  };
  return { give, pieces, tried, said, clock };
};

test("a batch that a time limit ends comes again with its first half, and so on, in the order of the log", async () => {
  const { give, tried, said } = reading();
  await give(8, 2);
  expect(tried).toEqual(["0+8", "0+4", "0+2", "2+2", "4+2", "6+2"]);
  expect(said).toEqual(["batch.slow 0 4 remember: too late", "batch.slow 0 2 remember: too late"]);
});

test("the next batches begin with that share, whatever their partition", async () => {
  const { give, tried } = reading();
  await give(4, 1);
  tried.length = 0;
  await give(8, 2, {}, 1, 4);
  expect(tried).toEqual(["4+2", "6+2", "8+2", "10+2"]);
});

test("after eight successes the size doubles until it is the whole batch, which is logged once", async () => {
  const { give, tried, said } = reading();
  await give(16, 4);
  for (let n = 1; n <= 6; n++) {
    tried.length = 0;
    await give(16, 16, {}, 0, 16 * n);
  }
  expect(tried).toEqual(["96+16"]);
  expect(said.slice(2)).toEqual(["batch.recovered"]);
});

test("a batch in whose middle the size becomes the whole one goes on behind what is done", async () => {
  const { give, tried } = reading();
  await give(2, 1);
  for (const from of [2, 4]) await give(2, 2, {}, 0, from);
  await give(1, 1, {}, 0, 6);
  tried.length = 0;
  // Its first piece is the eighth success.
  await give(8, 8, {}, 0, 7);
  await give(8, 8, {}, 0, 15);
  expect(tried).toEqual(["7+4", "11+4", "15+8"]);
});

test("a size that is too slow again is halved again, and what was read is not read twice", async () => {
  const { give, tried } = reading();
  await give(4, 1);
  tried.length = 0;
  await give(16, 4, {}, 0, 4);
  await give(16, 4, {}, 0, 20);
  expect(tried).toEqual(["4+4", "8+4", "12+4", "16+4", "20+8", "20+4", "24+4", "28+4", "32+4"]);
});

test("pieces of several partitions that were tried together count as one success", async () => {
  const { give, pieces, said, clock } = reading();
  await give(2, 1);
  const control = { heartbeat: async () => undefined, isCurrent: () => true } as Partial<Control> as Control;
  const together = async (from: number): Promise<void> => {
    const written = new Promise<void>((resolve) => setImmediate(resolve)).then(() => {
      clock.now += 1;
    });
    const one = (partition: number) =>
      pieces({ topic: "toy.raw", partition, messages: messages(1, from) }, control, () => written);
    await Promise.all(Array.from({ length: 12 }, (_, partition) => one(partition)));
  };
  // Two pieces have succeeded before.
  for (let n = 0; n < 5; n++) await together(2 + n);
  expect(said.slice(1)).toEqual([]);
  await together(7);
  expect(said.slice(1)).toEqual(["batch.recovered"]);
});

test("a single record is not halved, and its error is thrown on", async () => {
  const { pieces, said } = reading();
  const control = { heartbeat: async () => undefined, isCurrent: () => true } as Partial<Control> as Control;
  const away = new Error("away");
  const given = pieces({ topic: "toy.raw", partition: 0, messages: messages(1) }, control, () => Promise.reject(away));
  await expect(given).rejects.toBe(away);
  expect(said).toEqual([]);
});

test.each([
  ["is left", async () => undefined],
  ["has lost its membership", () => Promise.reject(new Error("the group has moved on"))],
])(
  "a batch that %s after most of its session comes again in halves, and one that was quick does not",
  async (_, end) => {
    const { pieces, said, clock } = reading();
    let isCurrent = true;
    const control = {
      heartbeat: async () => undefined,
      isCurrent: () => isCurrent,
      sessionMs: 10_000,
    } as Partial<Control> as Control;
    const lengths: number[] = [];
    const lose = (ms: number) =>
      pieces({ topic: "toy.raw", partition: 0, messages: messages(8) }, control, (piece) => {
        lengths.push(piece.messages.length);
        clock.now += ms;
        isCurrent = false;
        return end();
      }).catch(() => undefined);
    for (const ms of [1_000, 9_000, 11_000, 1_000]) {
      isCurrent = true;
      await lose(ms);
    }
    expect(lengths).toEqual([8, 8, 4, 2]);
    expect(said).toEqual(["batch.slow 0 4 the session of 10 s", "batch.slow 0 2 the session of 10 s"]);
  },
);

test("a consumer that stops begins no further piece", async () => {
  const { give, tried } = reading();
  await give(8, 2, { isStopping: () => tried.length === 4 });
  expect(tried).toEqual(["0+8", "0+4", "0+2", "2+2"]);
});

/** Retries nothing; a cuttable step that throws is slow. */
const cutting: Retry = async (name, one, _, isCuttable) => {
  try {
    return await one();
  } catch (error) {
    throw isCuttable === true ? new SlowBatch(name, error) : error;
  }
};

test("a stage whose memory is too slow for a batch decides and commits it in pieces, and is no stop", async () => {
  const made = world();
  publish(made, ...["a", "b", "c", "d"].map((id) => step(id)));
  let loaded = 0;
  const stops: string[] = [];
  const one = worker(made, {
    hosting: ["check", "walk", "point"],
    around: (effect, when) => {
      if (effect !== "remember walk,point" || when !== "before") return;
      loaded += 1;
      if (loaded <= 2) throw new Error("canceling statement due to statement timeout");
    },
    ports: {
      retry: cutting,
      stops: async (reader) => {
        stops.push(reader);
        return 1;
      },
    },
  });
  const partition = [0, 1, 2].find((n) => made.log.read("toy.raw", n, 0, 1).length > 0)!;
  await one.step(partition, 100);
  expect(made.effects.filter((effect) => /^(produce|commit)/.test(effect))).toEqual([
    "produce toy.out",
    "commit 1",
    "produce toy.out",
    "commit 2",
    "produce toy.out",
    "commit 3",
    "produce toy.out",
    "commit 4",
  ]);
  expect(made.effects.slice(-6, -2)).toEqual(["load walk", "load point", "remember walk,point", "produce toy.out"]);
  expect(stops).toEqual([]);
  const seen = made.log
    .all("toy.out")
    .map(({ value }) => made.wire.decode(toys.out, value, { topic: "", partition: 0, offset: 0 }).data);
  expect(seen.map(({ id, seen: before }) => [id, before.split(";")[0]])).toEqual([
    ["a", ""],
    ["b", "a"],
    ["c", "a,b"],
    ["d", "a,b,c"],
  ]);
});

test("the partitions of a write that is too slow come again in halves, and join one write", async () => {
  const writes: string[] = [];
  const commits: string[] = [];
  const events: string[] = [];
  const made = world();
  const store = {
    within: async (_: object, work: (write: (table: object, rows: readonly unknown[]) => Promise<void>) => unknown) => {
      const rows: Step[] = [];
      await work(async (_table, given) => void rows.push(...(given as Step[])));
      writes.push(rows.map(({ id }) => id).join(","));
      if (rows.length > 3) throw new Error("Timeout error.");
    },
  };
  const process = sinkRunner([stepsSink], {
    wire: made.wire,
    stores: { postgres: store, clickhouse: store, redis: store } as never,
    produce: async (_: readonly OutputMessage[]) => undefined,
    deadLetters: toy.deadLetters,
    deadLetter: () => ({ topic: "", key: null, value: null }),
    retry: cutting,
    classify: () => "fatal",
    run: "run",
    stops: async () => 1,
    log: { info: () => undefined, warn: (event) => void events.push(event), error: (event) => void events.push(event) },
    countWrite: () => undefined,
  });
  const give = (partition: number, ...ids: readonly string[]) =>
    process(
      {
        topic: toys.out.name,
        partition,
        messages: ids.map((id, offset) => {
          const position = { topic: "toy.raw", partition, offset };
          const event = { id, key: "here", at: 1, receivedAt: 1, position, data: step(id) };
          return { offset, key: null, value: made.wire.encode(toys.out, event, null), headers: {}, appendedAt: 0 };
        }),
      },
      {
        commit: async (offset: number) => void commits.push(`${partition}@${offset}`),
        heartbeat: async () => undefined,
        isCurrent: () => true,
      } as Partial<Control> as Control,
    );
  await Promise.all([give(0, "a", "b", "c"), give(1, "x"), give(2, "p", "q")]);
  expect(writes).toEqual(["a,b,c,x,p,q", "a,b,x,p", "a,x,p", "b,q", "c"]);
  expect(commits).toEqual(["0@1", "1@1", "2@1", "0@2", "2@2", "0@3"]);
  // Once for each halving of them together.
  expect(events).toEqual(["batch.slow", "batch.slow"]);
});

// A batch that a time limit has ended comes again in halves, and grows back.
import { expect, test } from "vitest";
import type { Control, InputMessage } from "../../stream/messages.ts";
import { openPieces, SlowBatch } from "../../stream/pace/pieces.ts";

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
      return true;
    });
  };
  return { give, pieces, tried, said, clock };
};

test("a batch that a time limit ends comes again with one record, then halves, in the order of the log", async () => {
  const { give, tried, said } = reading();
  await give(8, 2);
  expect(tried).toEqual(["0+8", "0+1", "1+4", "1+1", "2+2", "4+2", "6+2"]);
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
  expect(tried).toEqual(["4+4", "8+4", "12+4", "16+4", "20+4", "24+8", "24+1", "25+4", "29+4", "33+3"]);
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
      pieces({ topic: "toy.raw", partition, messages: messages(1, from) }, control, () => written.then(() => true));
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
  ["is left", async () => false],
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
  await give(8, 2, { isStopping: () => tried.length === 5 });
  expect(tried).toEqual(["0+8", "0+1", "1+4", "1+1", "2+2"]);
});

test("a piece that was left ends the batch, though its member is current again", async () => {
  const { give, pieces, tried } = reading();
  await give(8, 2);
  tried.length = 0;
  const control = { heartbeat: async () => undefined, isCurrent: () => true } as Partial<Control> as Control;
  await pieces({ topic: "toy.raw", partition: 0, messages: messages(8, 8) }, control, async (piece) => {
    tried.push(`${piece.messages[0]!.offset}+${piece.messages.length}`);
    return tried.length < 2;
  });
  expect(tried).toEqual(["8+2", "10+2"]);
});

test("a store that hangs ends its worker at the first single record, not after all halvings", async () => {
  const { pieces, said } = reading();
  const control = { heartbeat: async () => undefined, isCurrent: () => true } as Partial<Control> as Control;
  const tried: number[] = [];
  const hung = new Error("Command timed out");
  const given = pieces({ topic: "toy.raw", partition: 0, messages: messages(8_000) }, control, async (piece) => {
    tried.push(piece.messages.length);
    // A single record is repeated until the deadline of the step.
    throw piece.messages.length > 1 ? new SlowBatch("load", hung) : hung;
  });
  await expect(given).rejects.toBe(hung);
  expect(tried).toEqual([8_000, 1]);
  expect(said).toEqual(["batch.slow 0 4000 load: Command timed out"]);
});

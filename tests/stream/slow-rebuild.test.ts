// A rebuild of lost memory whose batches are too slow for a time limit: it goes on in pieces, in
// silence, and grows back.
import { expect, test } from "vitest";
import { inMemory } from "../../stream/memory/in-memory.ts";
import { SlowBatch } from "../../stream/pace/pieces.ts";
import type { PastBatch, PastReader, Retry, RunnerPorts } from "../../stream/ports.ts";
import { step, toys } from "../support/toy.ts";
import { publish, settleDown, type World, worker, world } from "../support/world.ts";

const journey = ["check", "walk", "point"];

interface Setting {
  /** How many records were committed before memory was lost. */
  readonly before: number;
  readonly after: number;
  /** Which writes of several records memory is too slow for, from 1. */
  readonly isSlow: (nth: number) => boolean;
  readonly most?: number;
  /** Where the log begins; the archive has what is missing. */
  readonly low?: number;
  /** The member is silent for one look after memory has answered this often. */
  readonly silentAfter?: number;
}

/** Loses memory, then reads on until nothing is left to read. */
const rebuilding = async ({ before, after, isSlow, most = 500, low = 0, silentAfter }: Setting) => {
  const made = world();
  publish(made, ...Array.from({ length: before }, (_, n) => step(`s${n}`)));
  await settleDown([worker(made, { hosting: journey })], made);
  const partition = [0, 1, 2].find((n) => made.log.read("toy.raw", n, 0, 1).length > 0)!;
  const log: World["log"] = {
    ...made.log,
    read: (topic, n, from, count) => made.log.read(topic, n, topic === "toy.raw" ? Math.max(from, low) : from, count),
  };
  const lost: World = {
    ...made,
    log,
    memories: { ...made.memories, fast: inMemory("fast") },
    committed: new Map(made.committed),
    effects: [],
  };
  publish(lost, ...Array.from({ length: after }, (_, n) => step(`t${n}`)));
  const archived: string[] = [];
  const past: PastReader = async function* (topic, n, from, until): AsyncGenerator<PastBatch> {
    archived.push(`${from}-${until}`);
    yield { topic, partition: n, from, until, messages: made.log.read(topic, n, from, until - from) };
  };
  const said: string[] = [];
  const say: RunnerPorts["log"]["info"] = (event) => void said.push(event);
  let cuttable = 0;
  const retry: Retry = async (name, work, _, isCuttable) => {
    if (name === "remember" && isCuttable) {
      cuttable += 1;
      if (isSlow(cuttable)) throw new SlowBatch(name, new Error("canceling statement due to statement timeout"));
    }
    return work();
  };
  let remembered = 0;
  let isSilent = false;
  const one = worker(lost, {
    hosting: journey,
    around: (effect, when) => {
      if (!effect.startsWith("remember") || when === "before") return;
      remembered += 1;
      isSilent = remembered === silentAfter;
    },
    ports: { retry, past, log: { info: say, warn: say, error: say } },
  });
  let fetchedAt = 0;
  const isCurrent = (): boolean => {
    const isStale = lost.effects.slice(fetchedAt).some((effect) => effect.startsWith("seek"));
    const answer = !isSilent && !isStale;
    isSilent = false;
    return answer;
  };
  let fetches = 0;
  // A loop without end is the fault that is looked for.
  while (fetches < 1_000 && (await one.step(partition, most, { isCurrent }))) {
    fetches += 1;
    fetchedAt = lost.effects.length;
  }
  const out = lost.log
    .all("toy.out")
    .map(({ value }) => made.wire.decode(toys.out, value, { topic: "", partition: 0, offset: 0 }).data);
  const moves = lost.effects.filter((effect) => /^(commit|seek|produce)/.test(effect));
  return { moves, said, archived, fetches, out: out.map(({ id, seen }) => `${id}:${seen}`) };
};

test("a rebuild that was cut grows back, and fetches no more often than one that was not", async () => {
  const many = { before: 600, after: 1, most: 100 };
  const quick = await rebuilding({ ...many, isSlow: () => false });
  const slow = await rebuilding({ ...many, isSlow: (nth) => nth <= 2 });
  expect(slow.said.filter((event) => event === "batch.slow")).toHaveLength(2);
  expect(slow.said).toContain("batch.recovered");
  expect(slow.fetches).toBe(quick.fetches);
  expect(slow.moves).toEqual(quick.moves);
  // One line for each fetch of a hundred.
  expect(slow.said.filter((event) => event === "memory.relearned")).toHaveLength(6);
});

test("records behind a rebuild that are too slow come again without its outputs, and commit once", async () => {
  const quick = await rebuilding({ before: 6, after: 4, isSlow: () => false });
  expect(quick.moves).toEqual(["seek 0", "produce toy.out", "commit 10"]);
  // The rebuilt part of the batch is in time, the part behind it is not.
  const slow = await rebuilding({ before: 6, after: 4, isSlow: (nth) => nth === 2 });
  expect(slow.said).toContain("batch.slow");
  expect(slow.out).toEqual(quick.out);
  expect(slow.moves).toEqual(quick.moves);
});

test("the archive is read once, however often the batch behind it is cut", async () => {
  const quick = await rebuilding({ before: 9, after: 3, low: 4, isSlow: () => false });
  const slow = await rebuilding({ before: 9, after: 3, low: 4, isSlow: (nth) => nth <= 2 });
  expect(slow.said.filter((event) => event === "batch.slow")).toHaveLength(2);
  expect([quick.archived, slow.archived]).toEqual([["0-4"], ["0-4"]]);
  expect(slow.out).toEqual(quick.out);
});

test("a rebuild whose records were left commits nothing behind them, and reads them again", async () => {
  const quick = await rebuilding({ before: 6, after: 4, isSlow: () => false });
  const left = await rebuilding({ before: 6, after: 4, isSlow: () => false, silentAfter: 1 });
  expect(left.fetches).toBe(quick.fetches + 1);
  expect(left.moves).toEqual(quick.moves);
  expect(left.out).toEqual(quick.out);
});

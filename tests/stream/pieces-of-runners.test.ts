// Stages and sinks whose batches come in pieces: each piece is committed before the next one, and
// nothing is committed behind a piece that was left.
import { expect, test } from "vitest";
import type { Control, OutputMessage } from "../../stream/messages.ts";
import { SlowBatch } from "../../stream/pace/pieces.ts";
import type { Retry } from "../../stream/ports.ts";
import { sinkRunner } from "../../stream/sink/sink-runner.ts";
import { type Step, step, stepsSink, toy, toys } from "../support/toy.ts";
import { publish, worker, world } from "../support/world.ts";

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
      // The second write has one record, and the third has two.
      if (loaded === 1 || loaded === 3) throw new Error("canceling statement due to statement timeout");
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

/**
 * A stage whose member is silent for one look after its memory has answered for the `nth` time. The
 * first `slow` times it is too slow.
 */
const silentAfter = (nth: number, slow: number, ...steps: readonly Step[]) => {
  const made = world();
  publish(made, ...steps);
  const partition = [0, 1, 2].find((n) => made.log.read("toy.raw", n, 0, 1).length > 0)!;
  const said: string[] = [];
  let remembered = 0;
  let isSilent = false;
  const one = worker(made, {
    hosting: ["check", "walk", "point"],
    around: (effect, when) => {
      if (!effect.startsWith("remember")) return;
      if (when === "before") {
        remembered += 1;
        if (remembered <= slow) throw new Error("canceling statement due to statement timeout");
      } else isSilent = remembered === nth;
    },
    ports: {
      retry: cutting,
      log: { info: () => undefined, warn: (event) => said.push(event), error: () => undefined },
    },
  });
  const isCurrent = (): boolean => {
    const answer = !isSilent;
    isSilent = false;
    return answer;
  };
  const commits = () => made.effects.filter((effect) => effect.startsWith("commit"));
  return { made, said, commits, run: (over = { isCurrent }) => one.step(partition, 100, over) };
};

test("a piece of a stage that was left commits nothing behind it, though the member is current again", async () => {
  const { made, commits, run } = silentAfter(3, 1, step("a"), step("b"), step("c"), step("d"));
  await run();
  expect(commits()).toEqual(["commit 1"]);
  await run();
  expect(commits().at(-1)).toBe("commit 4");
  const out = made.log
    .all("toy.out")
    .map(({ value }) => made.wire.decode(toys.out, value, { topic: "", partition: 0, offset: 0 }).data.id);
  expect(out).toEqual(["a", "b", "c", "d"]);
});

test("a stage is not stopped at a message whose predecessors were left", async () => {
  const { said, commits, run } = silentAfter(1, 0, step("a"), step("poison", { worth: 666 }), step("c"));
  await run();
  expect([commits(), said]).toEqual([[], []]);
  await expect(run()).rejects.toMatchObject({ name: "ProcessorThrew", offset: 1 });
  expect([commits(), said]).toEqual([["commit 1"], ["stage.stopped"]]);
});

/** Sinks whose writes of more than `most` rows are too slow. */
const sinking = (most: number) => {
  const writes: string[] = [];
  const commits: string[] = [];
  const events: string[] = [];
  const made = world();
  const store = {
    within: async (_: object, work: (write: (table: object, rows: readonly unknown[]) => Promise<void>) => unknown) => {
      const rows: Step[] = [];
      await work(async (_table, given) => void rows.push(...(given as Step[])));
      writes.push(rows.map(({ id }) => id).join(","));
      if (rows.length > most) throw new Error("Timeout error.");
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
  const give = (partition: number, ids: readonly string[], over: Partial<Control> = {}) =>
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
        ...over,
      } as Partial<Control> as Control,
    );
  return { give, writes, commits, events };
};

test("the partitions of a write that is too slow come again in pieces, and join one write", async () => {
  const { give, writes, commits, events } = sinking(3);
  await Promise.all([give(0, ["a", "b", "c", "d"]), give(1, ["x"]), give(2, ["p", "q", "r"])]);
  expect(writes).toEqual(["a,b,c,d,x,p,q,r", "a,x,p", "b,c,q,r", "b,q", "c,r", "d"]);
  expect(commits).toEqual(["0@1", "1@1", "2@1", "0@2", "2@2", "0@3", "2@3", "0@4"]);
  // Once for each halving of them together.
  expect(events).toEqual(["batch.slow", "batch.slow"]);
});

// The member is asked before each write, before each commit, and between two pieces.
test.each([
  ["the write of its first record", 3, []],
  ["the commit of its first record", 4, []],
  ["the write of the next piece", 6, ["1@1"]],
  ["the commit of the next piece", 7, ["1@1"]],
])("a partition that was silent before %s commits nothing behind what was left", async (_, silentAt, committed) => {
  const { give, writes, commits } = sinking(4);
  let looks = 0;
  // For a moment only: the next heartbeat makes it current again.
  const isCurrent = (): boolean => {
    looks += 1;
    return looks !== silentAt;
  };
  await Promise.all([give(0, ["a", "b", "c", "d"]), give(1, ["w", "x", "y", "z"], { isCurrent })]);
  expect(looks).toBe(silentAt);
  expect(commits.filter((commit) => commit.startsWith("1@"))).toEqual(committed);
  expect(commits.at(-1)).toBe("0@4");
  // Its batch comes again.
  writes.length = 0;
  await give(1, ["w", "x", "y", "z"]);
  expect(writes.join(",")).toBe("w,x,y,z");
  expect(commits.at(-1)).toBe("1@4");
});

// Lost fast memory comes back the same, even where the log no longer has the events that made it:
// the archive is read first, and emits nothing.
import fc from "fast-check";
import { expect, test } from "vitest";
import { pastOf } from "../../sinks/archive/archive-reads.ts";
import { archiver } from "../../sinks/archive/write.ts";
import { inMemory } from "../../stream/memory/in-memory.ts";
import type { Memory } from "../../stream/memory/memory.ts";
import { inMemoryObjects } from "../support/in-memory-objects.ts";
import { type Step, step } from "../support/toy.ts";
import { publish, settleDown, type World, worker, world } from "../support/world.ts";

const PARTITIONS = [0, 1, 2];
const places = ["here", "there", "elsewhere", "nowhere", "home"];
const keys = places.flatMap((place) => [place, `${place}|odd`, `${place}|even`]);
const journey = ["check", "walk", "point"];
const stages = ["walk", "point"];

/** All memory, by stage and key. */
const remembered = async (memory: Memory): Promise<unknown> =>
  Promise.all(
    stages.map(async (stage) => {
      const { versions, truncated } = await memory.load({ stage, keys, eventIds: [], topic: "toy.raw", partition: 0 });
      return [
        stage,
        [...versions].map(([key, list]) => [key, list.map((one) => ({ ...one, value: String(one.value) }))]),
        [...truncated],
      ];
    }),
  );
const outputs = (made: World): readonly string[] =>
  ["toy.out", "toy.claims"].flatMap((topic) =>
    made.log.all(topic).map(({ partition, value }) => `${topic}/${partition} ${value?.toString("hex")}`),
  );

/**
 * The log of `made` without its removed past, and its archive with two files for each partition.
 */
const withoutPast = async (made: World, share: number) => {
  const objects = inMemoryObjects();
  const { keep } = archiver(objects, async () => null);
  const lows = new Map<number, number>();
  for (const partition of PARTITIONS) {
    const all = made.log.read("toy.raw", partition, 0, 1_000);
    const low = Math.floor(all.length * share);
    lows.set(partition, low);
    for (const part of [all.slice(0, Math.ceil(low / 2)), all.slice(Math.ceil(low / 2), low + 1)])
      if (part.length > 0)
        await keep(
          {
            topic: "toy.raw",
            partition,
            messages: part.map((message) => ({ ...message, appendedAt: 1_000 })),
            highWatermark: all.length,
          },
          0,
          async () => undefined,
        );
  }
  const log: World["log"] = {
    ...made.log,
    read: (topic, partition, from, most) =>
      made.log.read(topic, partition, topic === "toy.raw" ? Math.max(from, lows.get(partition)!) : from, most),
  };
  return { log, past: pastOf(objects, { since: () => 0 }) };
};

const steps = fc
  .array(
    fc.record({
      place: fc.constantFrom(...places),
      worth: fc.constantFrom(-1, 1, 2, 4, 13, 1000),
      order: fc.constantFrom("", "o"),
    }),
    {
      minLength: 1,
      maxLength: 60,
    },
  )
  .map((drawn) => drawn.map((one, n): Step => step(`s${n}`, one)));

test(
  "what is remembered after a loss is what was remembered before, wherever the log begins by then",
  () =>
    fc.assert(
      fc.asyncProperty(
        steps,
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.integer({ min: 1, max: 20 }),
        async (drawn, share, most) => {
          const whole = world();
          publish(whole, ...drawn);
          await settleDown([worker(whole, { hosting: journey })], whole, most);
          // One more event for each place. The outputs show the memory that it met, and that
          // nothing was emitted twice.
          const late = places.map((place) => step(`late ${place}`, { place, order: "o" }));

          const { log, past } = await withoutPast(whole, share);
          const fast = inMemory("fast");
          const lost: World = {
            ...whole,
            log,
            memories: { ...whole.memories, fast },
            committed: new Map(whole.committed),
          };
          const logged: string[] = [];
          publish(lost, ...late);
          const say = (line: string) => void logged.push(line);
          await settleDown(
            [
              worker(lost, {
                hosting: journey,
                ports: { past, log: { info: () => undefined, warn: say, error: say } },
              }),
            ],
            lost,
            most,
          );
          expect(logged.filter((line) => line === "memory.truncated")).toEqual([]);

          const never = world();
          publish(never, ...drawn, ...late);
          await settleDown([worker(never, { hosting: journey })], never, most);
          expect(await remembered(fast)).toEqual(await remembered(never.memories.fast));
          expect([...outputs(lost)].sort()).toEqual([...outputs(never)].sort());
        },
      ),
      { numRuns: 100 },
    ),
  60_000,
);

test("what neither the log nor the archive holds is reported, with its offsets", async () => {
  const made = world();
  publish(made, ...Array.from({ length: 10 }, (_, n) => step(`s${n}`)));
  await settleDown([worker(made, { hosting: journey })], made);
  const { log } = await withoutPast(made, 0.6);
  const lost: World = { ...made, log, memories: { ...made.memories, fast: inMemory("fast") } };
  const logged: object[] = [];
  publish(lost, step("late"));
  const warn = (line: string, fields?: object) => void logged.push({ line, ...fields });
  await settleDown(
    [worker(lost, { hosting: journey, ports: { log: { info: () => undefined, warn, error: warn } } })],
    lost,
  );
  expect(logged).toMatchObject([
    { line: "memory.lost", from: 0 },
    { line: "memory.truncated", from: 0, found: 6 },
  ]);
});

// Memory that ends before the committed offset was lost: fast memory is relearnt without outputs
// before the stage goes on, durable memory decides again from its mark.
import { expect, test } from "vitest";
import { inMemory } from "../../stream/memory/in-memory.ts";
import type { Memory } from "../../stream/memory/memory.ts";
import { type Step, step, toys } from "../support/toy.ts";
import { publish, settleDown, type World, worker, world } from "../support/world.ts";

const journey = ["check", "walk", "point"];
const steps = Array.from({ length: 12 }, (_, n) => step(`s${n}`, { order: n % 3 === 0 ? "o" : "", worth: 2 * n + 2 }));
const run = (made: World, ...hosting: readonly (readonly string[])[]) =>
  settleDown(
    hosting.map((names) => worker(made, { hosting: names })),
    made,
    4,
  );
const losing = (made: World, memories: { readonly fast?: Memory; readonly durable?: Memory }): World => ({
  ...made,
  memories: { ...made.memories, ...memories },
});
const outputs = (made: World, topic: string): readonly string[] =>
  made.log.all(topic).map(({ value }) => value!.toString("hex"));

test("emptied fast memory is relearned before the next event, and nothing is put out again", async () => {
  const made = world();
  publish(made, ...steps.slice(0, 10));
  await run(made, journey);
  const before = outputs(made, "toy.out").length;
  const emptied = losing(made, { fast: inMemory("fast") });
  publish(emptied, ...steps.slice(10));
  made.effects.length = 0;
  await run(emptied, journey);
  expect(outputs(emptied, "toy.out")).toHaveLength(before + 2);
  expect(made.effects).toContain("seek 0");
  const whole = world();
  publish(whole, ...steps);
  await run(whole, journey);
  expect(outputs(emptied, "toy.out")).toEqual(outputs(whole, "toy.out"));
});

test(
  "memory that is emptied while a batch is folded, and again while it is relearned, is relearned " +
    "from its beginning",
  async () => {
    const made = world();
    publish(made, ...steps.slice(0, 10));
    await run(made, journey);
    const before = outputs(made, "toy.out").length;
    let current = inMemory("fast");
    let calls = 0;
    // Memory is emptied between load and remember: the driver reports it, and the batch has no
    // output.
    const emptied: Memory = {
      load: (wanted) => current.load(wanted),
      remember: async (batch) => {
        calls += 1;
        if (calls !== 1 && calls !== 3) return current.remember(batch);
        current = inMemory("fast");
        return "lost";
      },
    };
    const losing10 = losing(made, { fast: emptied });
    current = made.memories.fast as typeof current;
    publish(losing10, ...steps.slice(10));
    await run(losing10, journey);
    expect(calls).toBeGreaterThan(4);
    expect(outputs(losing10, "toy.out")).toHaveLength(before + 2);
    const whole = world();
    publish(whole, ...steps);
    await run(whole, journey);
    expect(outputs(losing10, "toy.out")).toEqual(outputs(whole, "toy.out"));
  },
);

test("relearning goes on where it stopped when the worker dies meanwhile", async () => {
  const made = world();
  publish(made, ...steps.slice(0, 10));
  await run(made, journey);
  const partition = [0, 1, 2].find((n) => made.log.read("toy.raw", n, 0, 1).length > 0)!;
  const emptied = losing(made, { fast: inMemory("fast") });
  publish(emptied, ...steps.slice(10));
  const committed = new Map(made.committed);
  const dying = worker(emptied, { hosting: journey });
  await dying.step(partition, 4);
  await dying.step(partition, 4);
  // The next owner begins at the commit in the log, not at the position of the dead one.
  for (const [place, offset] of committed) emptied.committed.set(place, offset);
  emptied.effects.length = 0;
  await run(emptied, journey);
  expect(emptied.effects.filter((effect) => effect.startsWith("seek"))[0]).toBe("seek 4");
  expect(outputs(emptied, "toy.out")).toHaveLength(12);
});

test(
  "durable memory that was restored from a backup decides again from its mark, and puts out the " + "same bytes",
  async () => {
    const [made, backup] = [world(), world()];
    publish(made, ...steps);
    publish(backup, ...steps.slice(0, 5));
    await run(made, journey, ["settle"]);
    await run(backup, journey, ["settle"]);
    const before = outputs(made, "toy.sums");
    const restored = losing(made, { durable: backup.memories.durable });
    publish(restored, step("late", { order: "o" }));
    await run(restored, journey, ["settle"]);
    expect(made.effects).toContain(`seek ${backup.log.all("toy.claims").length}`);
    const after = outputs(restored, "toy.sums");
    expect(new Set(after.slice(0, -1))).toEqual(new Set(before));
    const last = made.wire.decode<{ total: number }>(toys.sums as never, Buffer.from(after.at(-1)!, "hex"), {
      topic: "",
      partition: 0,
      offset: 0,
    });
    const worths = steps.filter(({ order }) => order === "o").reduce((sum, { worth }: Step) => sum + worth, 0);
    expect(last.data.total).toBe(worths + 2);
  },
);

test("a message that no processor survives does not keep lost memory from being relearned", async () => {
  const made = world();
  publish(made, ...steps.slice(0, 6));
  await run(made, journey);
  const emptied = losing(made, { fast: inMemory("fast") });
  publish(emptied, ...steps.slice(6, 8), step("poison", { worth: 666 }));
  await expect(run(emptied, journey)).rejects.toThrow("check threw");
  expect([...emptied.committed.values()]).toEqual([8]);
  expect(outputs(emptied, "toy.out")).toHaveLength(8);
});

test("memory that was not lost is never rebuilt", async () => {
  const made = world();
  publish(made, ...steps);
  await run(made, journey, ["settle"], ["pay"]);
  expect(made.effects.filter((effect) => effect.startsWith("seek"))).toEqual([]);
});

// Three stages in one worker or in three give the same outputs byte for byte, and the same dead
// letters with the bytes that each stage was given.
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Step, step } from "../support/toy.ts";
import { publish, settleDown, type World, worker, world } from "../support/world.ts";

const fused = [["check", "walk", "point"]];
const apart = [["check"], ["walk"], ["point"]];

const host = async (hosting: readonly (readonly string[])[], steps: readonly Step[], most: number): Promise<World> => {
  const made = world();
  publish(made, ...steps);
  await settleDown(
    hosting.map((names) => worker(made, { hosting: names })),
    made,
    most,
  );
  return made;
};
/** The messages of each partition in their order; partitions have no order among each other. */
const lying = (made: World, topic: string): readonly string[] =>
  made.log
    .all(topic)
    .map(({ partition, offset, key, value }) => `${partition}@${offset} ${key} ${value?.toString("hex")}`)
    .sort();
/** Outputs with another key come from several partitions, between which no order is promised. */
const contents = (made: World, topic: string): readonly string[] =>
  made.log
    .all(topic)
    .map(({ partition, key, value }) => `${partition} ${key} ${value?.toString("hex")}`)
    .sort();
const letters = (made: World): readonly string[] =>
  made.log
    .all("toy.dlq")
    .map(
      ({ key, value, headers }) =>
        `${headers["tributary-stage"]} ${headers["tributary-code"]} ${key} ${value?.toString("hex")}`,
    )
    .sort();

const steps = fc
  .array(
    fc.record({
      id: fc.integer({ min: 0, max: 30 }),
      place: fc.constantFrom("p1", "p2", "p3", "p4"),
      order: fc.constantFrom("", "o1", "o22", "o333"),
      worth: fc.constantFrom(-1, 0, 1, 2, 3, 13, 1000),
    }),
    { maxLength: 60 },
  )
  .map((drawn) => drawn.map(({ id, ...rest }) => step(`s${id}`, { ...rest, place: `${rest.place}-${id % 3}` })));

test("one worker of three stages and three workers of one write the same bytes, however the batches are cut", () =>
  fc.assert(
    fc.asyncProperty(
      steps,
      fc.integer({ min: 1, max: 20 }),
      fc.integer({ min: 1, max: 20 }),
      async (drawn, most, mostApart) => {
        const [one, three] = [await host(fused, drawn, most), await host(apart, drawn, mostApart)];
        expect(lying(one, "toy.out")).toEqual(lying(three, "toy.out"));
        expect(contents(one, "toy.claims")).toEqual(contents(three, "toy.claims"));
        expect(letters(one)).toEqual(letters(three));
        expect(one.log.all("toy.checked")).toEqual([]);
      },
    ),
    { numRuns: 200 },
  ));

test("the hosting may change between two batches", async () => {
  const steps = ["a", "b", "c", "d"].map((id) => step(id, { order: "o" }));
  const made = world();
  publish(made, ...steps.slice(0, 2));
  await settleDown([worker(made, { hosting: fused[0]! })], made);
  publish(made, ...steps.slice(2));
  await settleDown(
    apart.map((names) => worker(made, { hosting: names })),
    made,
  );
  const whole = await host(fused, steps, 100);
  expect(lying(made, "toy.out")).toEqual(lying(whole, "toy.out"));
});

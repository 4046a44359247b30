// Each event counts once: random logs with kills between all steps, redeliveries, repeated ids,
// batches of any size, rewinds, and overlapping owners that know different facts. At the end every
// id has one content, and memory is as if each event had come once.
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Step, type Sum, step, toys } from "../support/toy.ts";
import { Killed, publish, settleDown, type World, worker, world } from "../support/world.ts";

const groups = { first: ["check", "walk", "point"], settle: ["settle"], pay: ["pay"] };
type Group = keyof typeof groups;

const group = fc.constantFrom<Group>("first", "settle", "pay");
const place = { group, partition: fc.nat({ max: 2 }), most: fc.integer({ min: 1, max: 7 }) };
const factor = fc.integer({ min: 1, max: 5 });
const stepOf = fc.record({
  id: fc.nat({ max: 25 }),
  order: fc.constantFrom("", "o1", "o22", "o333"),
  worth: fc.constantFrom(-1, 0, 1, 2, 3, 4, 13, 1000),
  place: fc.constantFrom("p1", "p2", "p3"),
});
const action = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      does: fc.constant("publish" as const),
      steps: fc.array(stepOf, { minLength: 1, maxLength: 5 }),
    }),
  },
  { weight: 6, arbitrary: fc.record({ does: fc.constant("work" as const), ...place, factor }) },
  { weight: 3, arbitrary: fc.record({ does: fc.constant("die" as const), ...place, factor, at: fc.nat({ max: 12 }) }) },
  { weight: 2, arbitrary: fc.record({ does: fc.constant("hold" as const), ...place, factor }) },
  { weight: 2, arbitrary: fc.record({ does: fc.constant("wake" as const), which: fc.nat({ max: 5 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      does: fc.constant("overlap" as const),
      ...place,
      factor,
      other: factor,
      at: fc.nat({ max: 8 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ does: fc.constant("rewind" as const), group }) },
);
type Action = typeof action extends fc.Arbitrary<infer T> ? T : never;

/** Only settle has rates as facts, so that the outputs of the first chain can be compared too. */
const readOf = (of: Group, value: number) => (async () => (of === "settle" ? value : 1)) as never;

const play = async (
  made: World,
  actions: readonly Action[],
  contentOf: (id: number, drawn: Partial<Step>) => Step,
): Promise<void> => {
  const asleep: (() => Promise<void>)[] = [];
  for (const one of actions) {
    if (one.does === "publish") publish(made, ...one.steps.map(({ id, ...drawn }) => contentOf(id, drawn)));
    if (one.does === "work")
      await worker(made, { hosting: groups[one.group], read: readOf(one.group, one.factor) }).step(
        one.partition,
        one.most,
      );
    if (one.does === "die") {
      let effects = 0;
      const around = () => {
        if (effects++ === one.at) throw new Killed();
      };
      const mortal = worker(made, { hosting: groups[one.group], read: readOf(one.group, one.factor), around });
      await mortal.step(one.partition, one.most).catch((error) => expect(error).toBeInstanceOf(Killed));
    }
    if (one.does === "hold")
      asleep.push(
        worker(made, { hosting: groups[one.group], read: readOf(one.group, one.factor) }).hold(one.partition, one.most),
      );
    if (one.does === "wake") await asleep.splice(one.which, 1)[0]?.();
    if (one.does === "overlap") {
      // The second owner takes over the whole partition while the first one is paused at one of its
      // effects and does not notice.
      let effects = 0;
      const around = async () => {
        if (effects++ !== one.at) return;
        const second = worker(made, { hosting: groups[one.group], read: readOf(one.group, one.other) });
        await second.step(one.partition, one.most + 1);
      };
      await worker(made, { hosting: groups[one.group], read: readOf(one.group, one.factor), around }).hold(
        one.partition,
        one.most,
      )();
    }
    if (one.does === "rewind")
      for (const at of made.committed.keys()) if (at.startsWith(`${groups[one.group][0]}/`)) made.committed.set(at, 0);
  }
  for (const wake of asleep) await wake();
  await settleDown(
    (["first", "settle", "pay"] as const).map((of) => worker(made, { hosting: groups[of], read: readOf(of, 2) })),
    made,
    11,
  );
};

const contents = (made: World, topic: keyof typeof toys): ReadonlyMap<string, ReadonlySet<string>> => {
  const byId = new Map<string, Set<string>>();
  for (const { value } of made.log.all(toys[topic].name)) {
    const { id } = made.wire.decode<Step | Sum>(toys[topic] as never, value, { topic: "", partition: 0, offset: 0 });
    byId.set(id, (byId.get(id) ?? new Set()).add(value!.toString("hex")));
  }
  return byId;
};
const distinct = (made: World, topic: "sums" | "paid"): readonly Sum[] =>
  [...contents(made, topic).values()].flatMap((values) =>
    [...values].map(
      (hex) => made.wire.decode(toys[topic], Buffer.from(hex, "hex"), { topic: "", partition: 0, offset: 0 }).data,
    ),
  );
const byOrder = (sums: readonly Sum[]): ReadonlyMap<string, readonly Sum[]> => {
  const orders = new Map<string, Sum[]>();
  for (const sum of sums) orders.set(sum.order, [...(orders.get(sum.order) ?? []), sum]);
  return orders;
};
const hasOneContent = (made: World, topic: keyof typeof toys): void => {
  for (const [id, values] of contents(made, topic)) expect(values.size, `contents of ${id} in ${topic}`).toBe(1);
};

/**
 * The sums of an order form one sequence: each adds to the one before, none is missing and none is
 * repeated.
 */
const tellsOneStory = (made: World): void => {
  const orders = byOrder(distinct(made, "sums"));
  for (const [order, sums] of orders) {
    const inOrder = sums
      .map(({ total, cause }) => ({
        total,
        factor: Number(/ x(\d+) /.exec(cause)![1]),
        n: Number(/ n(\d+)$/.exec(cause)![1]),
      }))
      .sort((a, b) => a.n - b.n);
    expect(
      inOrder.map(({ n }) => n),
      `steps of ${order}`,
    ).toEqual(inOrder.map((_, n) => n + 1));
    for (const [n, { total, factor: by }] of inOrder.entries()) {
      const added = total - (inOrder[n - 1]?.total ?? 0);
      expect(added % by, `${order} at step ${n + 1}`).toBe(0);
      expect([1, 2, 3, 4]).toContain(added / by);
    }
  }
  const paid = byOrder(distinct(made, "paid"));
  for (const [order, sums] of orders) {
    const owed = sums.reduce((all, { total }) => all + total, 0);
    expect(Math.max(...paid.get(order)!.map(({ total }) => total)), `paid for ${order}`).toBe(owed);
    expect(paid.get(order), `payments of ${order}`).toHaveLength(sums.length);
  }
};

const actions = fc.array(action, { minLength: 5, maxLength: 60 });

test("one id has one content wherever money is decided, and the sums are as if each event had come once", () =>
  fc.assert(
    fc.asyncProperty(actions, async (drawn) => {
      const made = world();
      await play(made, drawn, (id, over) => step(`s${id}`, over));
      hasOneContent(made, "sums");
      hasOneContent(made, "paid");
      tellsOneStory(made);
    }),
    { numRuns: 400 },
  ));

test("an event that is sent once has one content on every topic, whatever dies, overlaps or is rewound", () =>
  fc.assert(
    fc.asyncProperty(actions, async (drawn) => {
      const made = world();
      let fresh = 0;
      await play(made, drawn, (_, over) => step(`s${fresh++}`, over));
      for (const topic of ["out", "claims", "sums", "paid"] as const) hasOneContent(made, topic);
      tellsOneStory(made);
    }),
    { numRuns: 400 },
  ));

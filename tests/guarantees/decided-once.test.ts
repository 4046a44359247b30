// Two owners of a partition overlap and know different facts: only the first decision counts, on a
// real Postgres, for any batches and any timing.
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import pg from "pg";
import { afterAll, expect, test } from "vitest";
import { postgresMemory } from "../../infra/postgres/durable-memory.ts";
import { inMemory } from "../../stream/memory/in-memory.ts";
import { sharedStack } from "../support/shared-stack.ts";
import { type Step, type Sum, step, toys } from "../support/toy.ts";
import { publish, settleDown, type Worker, type World, worker, world } from "../support/world.ts";

const pool = new pg.Pool({ connectionString: sharedStack().env.POSTGRES_URL, max: 6 });
afterAll(() => pool.end());

const made = (): World => world({ fast: inMemory("fast"), durable: postgresMemory(pool) });
const knowing = (factor: number) => (async () => factor) as never;

/** Reads a partition from its beginning, as an owner that does not know of the other one. */
const readAll = async (within: World, owner: Worker, topic: string, partition: number, most: number): Promise<void> => {
  for (let next = 0; ; ) {
    const messages = within.log.read(topic, partition, next, most);
    if (messages.length === 0) return;
    const control = {
      commit: async () => undefined,
      heartbeat: async () => undefined,
      isCurrent: () => true,
      seek: () => undefined,
      readOn: () => undefined,
      rest: () => undefined,
    };
    await owner.process({ topic, partition, messages }, control);
    next = messages.at(-1)!.offset + 1;
  }
};
const sumsOf = (within: World): readonly Sum[] =>
  within.log
    .all("toy.sums")
    .map(({ value }) => within.wire.decode(toys.sums, value, { topic: "", partition: 0, offset: 0 }).data);

const claims = fc.array(
  fc.record({ id: fc.nat({ max: 15 }), order: fc.nat({ max: 2 }), worth: fc.integer({ min: 1, max: 9 }) }),
  {
    minLength: 5,
    maxLength: 30,
  },
);

test("every event is decided once, and both owners tell the same story", () =>
  fc.assert(
    fc.asyncProperty(
      claims,
      fc.integer({ min: 1, max: 6 }),
      fc.integer({ min: 1, max: 6 }),
      async (drawn, most, mostOther) => {
        const within = made();
        const run = randomUUID();
        publish(
          within,
          ...drawn.map(({ id, order, worth }): Step => step(`${run}-${id}`, { order: `${run}-${order}`, worth })),
        );
        await settleDown([worker(within, { hosting: ["check", "walk", "point"] })], within);
        const owner = worker(within, { hosting: ["settle"], read: knowing(3) });
        const zombie = worker(within, { hosting: ["settle"], read: knowing(7) });
        await Promise.all(
          [0, 1].flatMap((partition) => [
            readAll(within, owner, "toy.claims", partition, most),
            readAll(within, zombie, "toy.claims", partition, mostOther),
          ]),
        );
        const contents = new Map<string, Set<string>>();
        for (const sum of sumsOf(within))
          contents.set(sum.id, (contents.get(sum.id) ?? new Set()).add(JSON.stringify(sum)));
        for (const [id, values] of contents) expect([...values], id).toHaveLength(1);
        expect(contents.size).toBe(new Set(drawn.map(({ id }) => id)).size);
        // The n-th sum of an order adds its own worth, times the factor of the owner that decided,
        // to the one before.
        for (let order = 0; order <= 2; order++) {
          const sums = [...new Map(sumsOf(within).map((sum) => [sum.id, sum])).values()].filter(
            (sum) => sum.order === `${run}-${order}`,
          );
          const inOrder = sums
            .map(({ total, cause }) => ({ total, n: Number(/ n(\d+)$/.exec(cause)![1]) }))
            .sort((a, b) => a.n - b.n);
          expect(inOrder.map(({ n }) => n)).toEqual(inOrder.map((_, n) => n + 1));
        }
      },
    ),
    { numRuns: 25 },
  ));

test("an event that comes again years later is answered with what was produced then", async () => {
  const within = made();
  const again = step(randomUUID(), { order: randomUUID(), worth: 10 });
  publish(within, again, again, again);
  await settleDown([worker(within, { hosting: ["check", "walk", "point"] })], within);
  for (const factor of [2, 5])
    for (const partition of [0, 1])
      await readAll(within, worker(within, { hosting: ["settle"], read: knowing(factor) }), "toy.claims", partition, 2);
  const values = within.log.all("toy.sums").map(({ value }) => value!.toString("hex"));
  expect(values).toHaveLength(6);
  expect(new Set(values).size).toBe(1);
  expect(sumsOf(within)[0]!.total).toBe(20);
});

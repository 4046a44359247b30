// A lane runs work in the order of arrival, never more at once than fits, and forgets none.
import fc from "fast-check";
import { expect, test } from "vitest";
import { openLane } from "../../infra/http/lane.ts";

test("never more runs at once than fits, the order is kept, and all of it ends", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.integer({ min: 1, max: 15 }), fc.boolean()), { maxLength: 30 }),
      async (works) => {
        const inTurn = openLane(10);
        const started: number[] = [];
        let running: number[] = [];
        const results = await Promise.allSettled(
          works.map(([weight, fails], n) =>
            inTurn("one", weight, async () => {
              started.push(n);
              running.push(weight);
              expect(running.length === 1 || running.reduce((sum, each) => sum + each, 0) <= 10).toBe(true);
              await new Promise((resolve) => setImmediate(resolve));
              running.splice(running.indexOf(weight), 1);
              if (fails) throw new Error("failed");
            }),
          ),
        );
        expect(started).toEqual(works.map((_, n) => n));
        expect(results.map(({ status }) => status === "rejected")).toEqual(works.map(([, fails]) => fails));
        running = [];
      },
    ),
  );
});

test("a small work does not wait for a large one", async () => {
  const inTurn = openLane(100);
  const ended: string[] = [];
  let release = (): void => undefined;
  const large = inTurn("one", 1_000, () => new Promise<void>((resolve) => (release = resolve))).then(() =>
    ended.push("large"),
  );
  const next = inTurn("one", 90, async () => ended.push("next large"));
  await inTurn("one", 5, async () => ended.push("small"));
  expect(ended).toEqual(["small"]);
  release();
  await Promise.all([large, next]);
  expect(ended.sort()).toEqual(["large", "next large", "small"]);
});

test("owners have the lane in turn: one that sends many does not keep another one waiting", async () => {
  const inTurn = openLane(100);
  const started: string[] = [];
  const works = ["a", "a", "a", "a", "b", "c", "b"].map((owner, n) =>
    inTurn(owner, 60, async () => {
      started.push(`${owner}${n}`);
      await new Promise((resolve) => setImmediate(resolve));
    }),
  );
  await Promise.all(works);
  expect(started).toEqual(["a0", "a1", "b4", "c5", "a2", "b6", "a3"]);
});

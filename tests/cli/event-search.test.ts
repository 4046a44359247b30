// Where the events of a reprocess are looked for: no time of a partition twice, and no further than
// they may lie.
import { expect, test } from "vitest";
import { openSearch } from "../../modules/money/reprocess/log/event-search.ts";
import type { ReprocessSettings, Stretch } from "../../modules/money/reprocess/ports.ts";
import { hourMs, noon } from "../support/builders.ts";

const minute = 60_000;
const settings: ReprocessSettings = {
  ...{ from: noon, to: noon + minute, stage: "attribute", clientId: null, overridesDecisions: false },
  ...{ actor: "operator:test", reason: "nothing" },
};
interface SearchInput {
  readonly late?: readonly string[];
  readonly near?: Parameters<typeof openSearch>[2]["near"];
  readonly now?: number;
}
const searched = ({ late = [], near = [], now = noon + 100 * hourMs }: SearchInput) =>
  openSearch({ storedAfter: async () => late, now }, settings, { near });
/** All stretches until the search ends, in minutes behind the window's beginning. */
const minutes = (stretches: readonly Stretch[]) =>
  stretches.map(({ partition, from, until }) => [partition, (from - noon) / minute, (until! - noon) / minute]);
const ofPartition = (partition: number, stretches: readonly Stretch[]) =>
  minutes(stretches.filter((one) => one.partition === partition)).map(([, ...times]) => times);

test("the window is read with a minute on both sides, and nothing behind it when nothing is missing", async () => {
  const { next } = await searched({});
  expect([...new Set(minutes(next()).map(([, ...times]) => times.join(" ")))]).toEqual(["-1 2"]);
  expect(next()).toEqual([]);
});

test("a late event is looked for in longer and longer stretches until it came", async () => {
  const { next, found } = await searched({ late: ["a", "b"] });
  const reads = [next(), next(), next()].map((stretches) => ofPartition(3, stretches));
  expect(reads).toEqual([[[-1, 2]], [[2, 4]], [[4, 12]]]);
  found("a");
  expect(ofPartition(3, next())).toEqual([[12, 44]]);
  found("b");
  expect(next()).toEqual([]);
});

test("one that never comes is looked for as long as a copy may come, and not beyond now", async () => {
  const read = async (given: SearchInput): Promise<number> => {
    const { next } = await searched(given);
    let last = 0;
    for (let some = next(); some.length > 0; some = next()) last = Math.max(last, ...some.map(({ until }) => until!));
    return (last - noon) / minute;
  };
  expect(await read({ late: ["a"] })).toBe(48 * 60 + 1);
  expect(await read({ late: ["a"], now: noon + 20 * minute })).toBe(21);
});

test("a conversion around the window is read in its own partition, and no time twice", async () => {
  const at = (ofWindow: number): number => noon + ofWindow * minute;
  const { next } = await searched({
    near: [
      { id: "before", partition: 3, receivedAt: at(-4), appendedAt: at(9) },
      { id: "beside it", partition: 3, receivedAt: at(-4), appendedAt: at(-4) },
      { id: "after", partition: 5, receivedAt: at(60), appendedAt: at(60) },
    ],
  });
  const reads: (readonly Stretch[])[] = [];
  for (let some = next(); some.length > 0; some = next()) reads.push(some);
  expect(reads.map((some) => ofPartition(3, some))).toEqual([
    [
      [-1, 2],
      [-5, -3],
    ],
    // Its next two minutes, as far as they were not read yet; then up to the append of its claim.
    [[-3, -1]],
    [[2, 7]],
    [[7, 10]],
  ]);
  expect(reads.flatMap((some) => ofPartition(5, some))).toEqual([
    [-1, 2],
    [59, 61],
  ]);
});

// The target of a rewind: never above the committed offset, whatever the broker answers (law R10),
// and never silently inside the part that retention removed.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  caughtUp,
  eventsOf,
  forward,
  movesOf,
  type PartitionFound,
  planOf,
  type RewindTo,
  targetOf,
} from "../../modules/log/rewind/rewind-plan.ts";

/**
 * A partition as a broker may describe it: with or without lag, removed records and a commit.
 * `atTime` is the high watermark if no record is newer than the time.
 */
const partitions: fc.Arbitrary<PartitionFound> = fc
  .record({
    low: fc.nat(1_000),
    length: fc.nat(1_000),
    read: fc.nat(1_000),
    at: fc.nat(2_000),
    isCommitted: fc.boolean(),
    lowAt: fc.nat(10_000),
  })
  .map(({ low, length, read, at, isCommitted, lowAt }) => ({
    partition: 0,
    low,
    // A group may have any lag, and its commit may be before the oldest record of the log.
    committed: isCommitted ? Math.min(low + length, read) : null,
    atTime: Math.min(Math.max(low, at), low + length),
    lowAt,
  }));
const wishes: fc.Arbitrary<RewindTo> = fc.oneof(
  fc.constant<RewindTo>({ kind: "earliest" }),
  fc.nat(3_000).map((offset): RewindTo => ({ kind: "offset", offset })),
  fc.nat(20_000).map((at): RewindTo => ({ kind: "time", at })),
);
const planned = (to: RewindTo, found: readonly PartitionFound[]) => planOf({ topic: "t", to, text: "there" }, found);

describe("the target of a partition", () => {
  test("is never above what the group has committed", () =>
    fc.assert(
      fc.property(wishes, partitions, (to, found) => {
        const target = targetOf(to, found);
        if (found.committed === null) return target === null;
        return target !== null && target <= found.committed;
      }),
      { numRuns: 5_000 },
    ));
  test("lies in the log, unless the group itself stands before it", () =>
    fc.assert(
      fc.property(wishes, partitions, (to, found) => {
        const target = targetOf(to, found);
        return target === null || target >= found.low || target === found.committed;
      }),
    ));
  test("is the committed offset when the broker answers the high watermark of a lagging group", () =>
    expect(
      targetOf({ kind: "time", at: 9_999 }, { partition: 0, low: 0, committed: 40, atTime: 100, lowAt: null }),
    ).toBe(40));
  test("is the offset by time when that is older", () =>
    expect(targetOf({ kind: "time", at: 5 }, { partition: 0, low: 0, committed: 40, atTime: 12, lowAt: null })).toBe(
      12,
    ));
  test("of a partition that was never committed there is none", () =>
    expect(
      planned({ kind: "earliest" }, [{ partition: 0, low: 0, committed: null, atTime: null, lowAt: null }]).plan
        .partitions,
    ).toEqual([]));
});

describe("what retention has removed", () => {
  const cut = (lowAt: number | null, low = 100): PartitionFound => ({
    partition: 2,
    low,
    committed: 400,
    atTime: low,
    lowAt,
  });
  test("is named when the wanted time lies before the first record that is left", () =>
    expect(planned({ kind: "time", at: 1_000 }, [cut(5_000)]).gaps).toEqual([
      { partition: 2, kind: "time", from: 1_000, until: 5_000 },
    ]));
  test("is named when the wanted offset does", () =>
    expect(planned({ kind: "offset", offset: 40 }, [cut(null)]).gaps).toEqual([
      { partition: 2, kind: "offsets", from: 40, until: 100 },
    ]));
  test("is nothing where the log still holds its first record", () =>
    expect(planned({ kind: "time", at: 0 }, [cut(5_000, 0)]).gaps).toEqual([]));
  test("does not matter to who wants as far as there is", () =>
    expect(planned({ kind: "earliest" }, [cut(5_000)]).gaps).toEqual([]));
});

test("a group has caught up exactly when every partition has passed what it had committed", () =>
  fc.assert(
    fc.property(
      wishes,
      fc.array(partitions, { maxLength: 4 }),
      fc.array(fc.nat(3_000), { minLength: 4, maxLength: 4 }),
      (to, found, now) => {
        const { plan } = planned(
          to,
          found.map((one, partition) => ({ ...one, partition })),
        );
        const stand = new Map(now.map((offset, partition) => [partition, offset]));
        const isThere = movesOf(plan).every(({ partition, committed }) => stand.get(partition)! >= committed);
        return (caughtUp(plan, stand) === eventsOf(plan)) === isThere && caughtUp(plan, stand) >= 0;
      },
    ),
  ));

test("a partition that stands further than it had committed is reported", () => {
  const { plan } = planned({ kind: "offset", offset: 10 }, [
    { partition: 0, low: 0, committed: 40, atTime: null, lowAt: null },
  ]);
  expect(forward(plan, new Map([[0, 41]]))).toEqual([0]);
  expect(forward(plan, new Map([[0, 40]]))).toEqual([]);
  expect(forward(plan, new Map())).toEqual([]);
});

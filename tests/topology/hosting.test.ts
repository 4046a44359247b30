// How the product hosts the pipeline: all of it, in groups whose names no new stage or sink
// changes.
import { expect, test } from "vitest";
import { groupsOf } from "../../modules/log/groups/hosting.ts";
import { workerGroups } from "../../modules/running/installation/product.ts";
import { readersOf } from "../../stream/topology.ts";
import { parts } from "../../tools/chaos/hosting.ts";
import { pipeline } from "../../topology.ts";

test("every stage and sink is hosted once", () => {
  const hosted = workerGroups.flatMap((arg) => arg.split(","));
  expect(hosted.toSorted()).toEqual(
    readersOf(pipeline)
      .map(({ name }) => name)
      .toSorted(),
  );
});

test("groups that installations have keep their names: another one would read its topic from the beginning", () => {
  const names = groupsOf(pipeline, workerGroups).map(({ name }) => name);
  const stored = ["enrich", "settle", "commission", "analytics", "conversions", "ledger", "archive"];
  expect(names).toEqual(expect.arrayContaining(stored.map((first) => `tributary.${first}`)));
});

test("a rebuild reads everything that stages make, and all but copies read it", () => {
  expect(parts.map(({ input }) => input)).toEqual(expect.arrayContaining(["events.raw", "claims", "conversions"]));
  const rebuilt = new Set(parts.flatMap(({ groups }) => groups.map(({ arg }) => arg)));
  const left = groupsOf(
    pipeline,
    workerGroups.filter((arg) => !rebuilt.has(arg)),
  );
  expect(left.filter(({ is }) => is !== "copy")).toEqual([]);
});

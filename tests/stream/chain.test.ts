// Which stages may be hosted in a row, and the error for those that may not.
import { expect, test } from "vitest";
import { chain } from "../../stream/chain.ts";
import { sink } from "../../stream/flow.ts";
import { topology } from "../../stream/topology.ts";
import { toy, toys } from "../support/toy.ts";

const saying = (...names: string[]): string => {
  try {
    chain(toy, names);
    return "";
  } catch (error) {
    return (error as Error).message;
  }
};

test("stages that follow each other on one key are one chain, named after the first", () => {
  const { name, reads, writes } = chain(toy, ["check", "walk", "point"]);
  expect({ name, reads: reads.name, writes: writes.map((topic) => topic.name) }).toEqual({
    name: "check",
    reads: "toy.raw",
    writes: ["toy.out", "toy.claims"],
  });
});

test("a chain ends where the key changes", () =>
  expect(saying("point", "settle")).toContain("their partitions differ"));

test("stages that do not follow each other are refused", () =>
  expect(saying("check", "point")).toContain("point reads toy.walked, which check does not write"));

test("every problem is reported at once", () => {
  const problems = saying("absent", "door", "check", "check");
  expect(problems).toContain("absent is not in the topology");
  expect(problems).toContain("door is an edge, not a stage");
  expect(problems).toContain("check stands there twice");
});

test("a topic that something else reads cannot be skipped", () => {
  const watched = topology(
    "watched",
    toy.deadLetters,
    ...toy.nodes,
    sink({
      name: "watch",
      from: toys.checked,
      rows: () => [],
      into: { name: "t", store: "postgres", key: [], tenantOf: () => 1, write: async () => {} },
    }),
  );
  expect(() => chain(watched, ["check", "walk"])).toThrow("watch reads toy.checked, which would be skipped");
});

test("nothing to host is said", () => expect(saying()).toContain("(nothing) cannot be hosted"));

// The state hash leaves nothing out in silence: whatever a sink fills is hashed, or is named here
// with the reason why not.
import { expect, test } from "vitest";
import { differingTables, hashableTables, type StateHash } from "../../modules/running/state-hash/state-hash.ts";
import type { AnySink } from "../../stream/flow.ts";
import { pipeline } from "../../topology.ts";

const leftOut: Readonly<Record<string, string>> = {
  velocity: "hints in Redis, which may be lost; what they changed stands on the events",
  archive: "files, which have laws of their own (C11)",
};

test("every table that a sink fills is part of the state, or says why it is not", () => {
  const filled = pipeline.nodes.filter((node): node is AnySink => node.is === "sink").map(({ into }) => into.name);
  expect(filled.filter((table) => !hashableTables.includes(table) && leftOut[table] === undefined)).toEqual([]);
});

test("tables differ by their rows, by their hash, and when only one state holds them", () => {
  const state = (...tables: readonly [string, number, string][]): StateHash => ({
    tables: tables.map(([table, rows, hash]) => ({ store: "postgres", table, rows, hash })),
    hash: "",
  });
  expect(differingTables(state(["a", 1, "x"], ["b", 1, "x"]), state(["a", 1, "x"], ["b", 2, "x"]))).toEqual([
    "postgres.b",
  ]);
  expect(differingTables(state(["a", 1, "x"]), state(["a", 1, "y"], ["c", 0, "z"]))).toEqual([
    "postgres.a",
    "postgres.c",
  ]);
});

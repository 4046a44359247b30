// The state hash leaves out no table or column silently: a sink's declaration gives the reason for
// each.
import { expect, test } from "vitest";
import { differingTables, hashableTables, type StateHash } from "../../modules/running/state-hash/state-hash.ts";
import { pipeline } from "../../topology.ts";

test("every table that a sink fills is part of the state, or says why it is not", () => {
  const filled = pipeline.nodes.flatMap((node) => (node.is === "sink" ? [node.into] : []));
  expect(filled.length).toBeGreaterThan(8);
  expect(filled.filter(({ name, unhashed = "" }) => hashableTables.includes(name) === unhashed.length > 0)).toEqual([]);
});

test("totals of earlier releases are compared, so the tables that they were made of keep their order", () => {
  const earlier = [
    ...["events", "consent_changes", "receipts", "rollups", "rollup_dimensions"],
    ...["product_sales", "app_events", "conversions", "ledger_entries", "ledger_lines", "commissions"],
    "identity_edges",
  ];
  expect(hashableTables.filter((table) => earlier.includes(table))).toEqual(earlier);
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

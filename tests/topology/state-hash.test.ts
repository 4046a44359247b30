// The state hash leaves out no table or column silently: a sink's declaration gives the reason for
// each.
import { describe, expect, test } from "vitest";
import { compareHours, compareReleases } from "../../modules/running/state-hash/compare.ts";
import type { HourHash, TableHash } from "../../modules/running/state-hash/hour-hash.ts";
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

describe("beside a hash of an earlier release", () => {
  const of = (table: string, rows: number, hash: string, columns?: readonly string[]): TableHash => ({
    ...{ store: "clickhouse", table, rows, hash },
    ...(columns !== undefined && { columns }),
  });
  const compared = async (before: TableHash, now: readonly TableHash[], again: readonly TableHash[] = []) => {
    const asked: unknown[] = [];
    const all = await compareReleases([before], now, async (columns) => {
      asked.push(...columns);
      return again;
    });
    return { asked, outcomes: all.map(({ table, outcome, because }) => [table, outcome, because]) };
  };

  test("a table that has got a column is the same if its earlier columns are", async () => {
    const before = of("events", 2, "x", ["a", "b"]);
    const wider = of("events", 2, "other", ["a", "b", "c"]);
    expect(await compared(before, [wider], [of("events", 2, "x", ["a", "b"])])).toEqual({
      asked: [["events", ["a", "b"]]],
      outcomes: [["clickhouse.events", "same", null]],
    });
    const { outcomes } = await compared(before, [wider], [of("events", 2, "y", ["a", "b"])]);
    expect(outcomes).toEqual([["clickhouse.events", "changed", null]]);
  });

  test("nothing is said of contents that cannot be compared, but rows that are missing are", async () => {
    const unlisted = of("events", 2, "x");
    const because = "the earlier hash does not say which columns it is of";
    expect((await compared(unlisted, [of("events", 2, "y", ["a"])])).outcomes[0]).toEqual([
      ...["clickhouse.events", "unknown", because],
    ]);
    expect((await compared(unlisted, [of("events", 1, "y", ["a"])])).outcomes[0]![1]).toBe("fewer");
    expect((await compared(unlisted, [of("events", 2, "x", ["a"])])).outcomes[0]![1]).toBe("same");
    const dropped = of("events", 2, "x", ["a", "b"]);
    expect((await compared(dropped, [of("events", 3, "y", ["a"])])).outcomes[0]).toEqual([
      ...["clickhouse.events", "unknown", "this release has no b"],
    ]);
  });

  test("a table that only one release has is no lost row", async () => {
    const { outcomes } = await compared(of("old", 2, "x", ["a"]), [of("fresh", 1, "y", ["a"])]);
    expect(outcomes).toEqual([
      ["clickhouse.old", "gone", null],
      ["clickhouse.fresh", "new", null],
    ]);
  });
});

test("beside live traffic a replay says hour by hour what became of the rows that were there", () => {
  const at = (hour: number, rows: number, hash: bigint): HourHash => ({
    ...{ store: "postgres", table: "conversions", columns: [], hour: hour * 3_600_000, rows, hash },
  });
  const before = [at(0, 5, 1n), at(1, 5, 2n), at(2, 5, 3n), at(3, 5, 4n)];
  const after = [at(0, 5, 1n), at(1, 7, 9n), at(2, 5, 8n), at(3, 4, 7n), at(4, 1, 1n)];
  expect(compareHours(before, after)).toEqual([
    {
      ...{ table: "postgres.conversions", rows_before: 20, rows: 22 },
      hours: { same: 1, more: [3_600_000, 4 * 3_600_000], changed: [2 * 3_600_000], fewer: [3 * 3_600_000] },
    },
  ]);
});

// The state of the rows of one hour of a table, and how those of all hours make that of the table.
import type { UnixMs } from "../../../stream/flow.ts";

export interface HourHash {
  readonly store: "clickhouse" | "postgres";
  readonly table: string;
  /** The start of the hour in which the rows happened. Null: they have no time. */
  readonly hour: UnixMs | null;
  readonly rows: number;
  /** 256 bits that do not depend on the order of the rows. */
  readonly hash: bigint;
  /** The columns that were hashed, by name. */
  readonly columns: readonly string[];
}

/** The state of one table: the number of rows, and a hash of all rows. */
export interface TableHash {
  readonly store: HourHash["store"];
  readonly table: string;
  readonly rows: number;
  /** 64 hex digits. */
  readonly hash: string;
  /** The columns that were hashed. Hashes of earlier releases do not say them. */
  readonly columns?: readonly string[];
}

/** The column by whose hour a row is counted. A table that is not here is one hour. */
export const TIMES: Readonly<Record<string, string>> = {
  ...{ events: "ts", receipts: "ts", consent_changes: "at" },
  ...{ rollups: "bucket", rollup_dimensions: "bucket" },
  ...{ product_sales: "occurred_at", app_events: "occurred_at", conversions: "occurred_at" },
  ...{ ledger_entries: "occurred_at", commissions: "occurred_at", identity_edges: "last_seen" },
};

/** Columns to hash instead of all that are declared, by table. */
export type ColumnsByTable = ReadonlyMap<string, readonly string[]>;

const MODULUS = 1n << 256n;
/** As the store adds the hashes of rows: ClickHouse sums, Postgres takes the exclusive or. */
const ADDS = {
  clickhouse: (a: bigint, b: bigint): bigint => (a + b) % MODULUS,
  postgres: (a: bigint, b: bigint): bigint => a ^ b,
} as const;

/** Tables in the order of their hours. */
export const tablesOf = (hours: readonly HourHash[]): readonly TableHash[] => {
  const sums = new Map<string, HourHash>();
  for (const one of hours) {
    const sum = sums.get(one.table);
    const { rows, hash } = sum ?? { rows: 0, hash: 0n };
    sums.set(one.table, { ...one, rows: rows + one.rows, hash: ADDS[one.store](hash, one.hash) });
  }
  return [...sums.values()].map(({ store, table, rows, hash, columns }) => {
    return { store, table, rows, hash: hash.toString(16).padStart(64, "0"), columns };
  });
};

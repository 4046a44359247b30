// The state hash H: one SHA-256 over every table that is derived from the log, in both stores.
// Guarantees are proven with it.
import { createHash } from "node:crypto";
import type { Pool } from "pg";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { hashAnalytics, hashedAnalytics } from "./clickhouse.ts";
import { type ColumnsByTable, type HourHash, type TableHash, tablesOf } from "./hour-hash.ts";
import { hashTables } from "./postgres.ts";
import { postgresTables } from "./sink-tables.ts";

export interface StateHash {
  /** In a fixed order. */
  readonly tables: readonly TableHash[];
  /** Hash of the tables' names, row counts and hashes; 64 hex digits. */
  readonly hash: string;
}

/** The state with that of each hour, for a comparison of before and after. */
export interface StateByHour extends StateHash {
  readonly hours: readonly HourHash[];
}

/** Every table that may be named. */
export const hashableTables: readonly string[] = [
  ...hashedAnalytics.map(({ name }) => name),
  ...postgresTables.map(({ name }) => name),
];

/**
 * Hashes the current contents of the stores. Two results are comparable only when nothing was in
 * progress between them, waiting rollups included. Both connections must allow a statement as long
 * as reading a table takes. Throws RangeError on an unknown name.
 */
export const stateByHour = async (
  pool: Pool,
  clickhouse: Clickhouse,
  names: readonly string[] = hashableTables,
  columns?: ColumnsByTable,
): Promise<StateByHour> => {
  const unknown = names.filter((name) => !hashableTables.includes(name));
  if (unknown.length > 0)
    throw new RangeError(`not a table that is hashed: ${unknown.join(", ")}; known: ${hashableTables.join(", ")}`);
  const hours = [...(await hashAnalytics(clickhouse, names, columns)), ...(await hashTables(pool, names, columns))];
  const tables = tablesOf(hours);
  const total = createHash("sha256");
  for (const { store, table, rows, hash } of tables) total.update(`${store}.${table} ${rows} ${hash}\n`);
  return { tables, hash: total.digest("hex"), hours };
};

export const stateHash = async (...asked: Parameters<typeof stateByHour>): Promise<StateHash> => {
  const { tables, hash } = await stateByHour(...asked);
  return { tables, hash };
};

/** Returns the tables in which two states differ; a table that only one of them holds differs. */
export const differingTables = (a: StateHash, b: StateHash): readonly string[] => {
  const linesOf = ({ tables }: StateHash) =>
    new Map(tables.map(({ store, table, rows, hash }) => [`${store}.${table}`, `${rows} ${hash}`]));
  const [left, right] = [linesOf(a), linesOf(b)];
  return [...new Set([...left.keys(), ...right.keys()])].filter((table) => left.get(table) !== right.get(table));
};

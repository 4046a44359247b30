// The state hash H: one SHA-256 over every table that is a reading of the log, in both stores. What
// guarantees are proven with.
import { createHash } from "node:crypto";
import type { Pool } from "pg";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { hashAnalytics, hashedAnalytics } from "./clickhouse.ts";
import { hashTables, type TableHash } from "./postgres.ts";
import { postgresTables } from "./sink-tables.ts";

export interface StateHash {
  /** In a fixed order. */
  readonly tables: readonly TableHash[];
  /** Of the tables' names, row counts and hashes; 64 hex digits. */
  readonly hash: string;
}

/** Every table that can be asked for. */
export const hashableTables: readonly string[] = [
  ...hashedAnalytics.map(({ name }) => name),
  ...postgresTables.map(({ name }) => name),
];

/**
 * Says what the stores hold now; two calls are only to be compared when nothing is under way
 * between them, rollups that wait included. Both connections must allow a statement as long as
 * reading a table takes. Throws RangeError on an unknown name.
 */
export const stateHash = async (
  pool: Pool,
  clickhouse: Clickhouse,
  names: readonly string[] = hashableTables,
): Promise<StateHash> => {
  const unknown = names.filter((name) => !hashableTables.includes(name));
  if (unknown.length > 0)
    throw new RangeError(`not a table that is hashed: ${unknown.join(", ")}; known: ${hashableTables.join(", ")}`);
  const tables = [...(await hashAnalytics(clickhouse, names)), ...(await hashTables(pool, names))];
  const total = createHash("sha256");
  for (const { store, table, rows, hash } of tables) total.update(`${store}.${table} ${rows} ${hash}\n`);
  return { tables, hash: total.digest("hex") };
};

/** The tables in which two states differ; one that only one of them holds differs. */
export const differingTables = (a: StateHash, b: StateHash): readonly string[] => {
  const linesOf = ({ tables }: StateHash) =>
    new Map(tables.map(({ store, table, rows, hash }) => [`${store}.${table}`, `${rows} ${hash}`]));
  const [left, right] = [linesOf(a), linesOf(b)];
  return [...new Set([...left.keys(), ...right.keys()])].filter((table) => left.get(table) !== right.get(table));
};

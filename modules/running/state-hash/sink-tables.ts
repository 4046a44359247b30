// The tables that sinks fill, as the state hash reads them: every table of the pipeline whose
// declaration gives no reason to leave it out.
import type { StoredTable } from "../../../infra/clickhouse/columns.ts";
import type { DeclaredTable } from "../../../infra/postgres/columns.ts";
import { isClickhouseTable } from "../../../sinks/stores/clickhouse.ts";
import { isPostgresTable } from "../../../sinks/stores/postgres.ts";
import { type Table, writesRows } from "../../../stream/flow.ts";
import { pipeline } from "../../../topology.ts";

/** A table of a sink, and the tables that its statements or views fill. */
export const filledWith = (table: Table<unknown>): readonly string[] => {
  const fills = isPostgresTable(table) || isClickhouseTable(table) ? table.fills : undefined;
  return [table, ...(fills ?? [])].map(({ name }) => name);
};

const filled = pipeline.nodes.flatMap((node) =>
  node.is === "sink" && writesRows(node) && node.into.unhashed === undefined ? [node.into] : [],
);
const inserted = filled.filter(isClickhouseTable);

/** Tables that sinks insert into, then tables that views fill. */
export const analyticsTables: readonly StoredTable[] = [
  ...inserted.map(({ name, key, comparedBy = key, columns }) => ({ name, key: comparedBy, columns })),
  ...inserted.flatMap(({ fills = [] }) => fills),
];

/**
 * The total hash depends on the order of tables, and operators compare the totals of two releases.
 * So identity edges stay last, where earlier releases had them.
 */
const LAST = "identity_edges";
const written: readonly DeclaredTable[] = filled
  .filter(isPostgresTable)
  .flatMap((table): readonly DeclaredTable[] => [table, ...(table.fills ?? [])]);
/** All declared columns of each table are hashed. */
export const postgresTables: readonly DeclaredTable[] = [
  ...written.filter(({ name }) => name !== LAST),
  ...written.filter(({ name }) => name === LAST),
];

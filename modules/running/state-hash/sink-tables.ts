// The tables that sinks fill, as the state hash reads them: every table of the pipeline whose
// declaration does not say why it is left out.
import type { StoredTable } from "../../../infra/clickhouse/columns.ts";
import type { DeclaredTable } from "../../../infra/postgres/columns.ts";
import { isClickhouseTable } from "../../../sinks/stores/clickhouse.ts";
import { isPostgresTable } from "../../../sinks/stores/postgres.ts";
import { writesRows } from "../../../stream/flow.ts";
import { pipeline } from "../../../topology.ts";

const filled = pipeline.nodes.flatMap((node) =>
  node.is === "sink" && writesRows(node) && node.into.unhashed === undefined ? [node.into] : [],
);
const inserted = filled.filter(isClickhouseTable);

/** Those that sinks insert into, then those that views fill. */
export const analyticsTables: readonly StoredTable[] = [
  ...inserted.map(({ name, key, comparedBy = key, columns }) => ({ name, key: comparedBy, columns })),
  ...inserted.flatMap(({ fills = [] }) => fills),
];

/**
 * The total hash depends on the order of tables, and operators compare totals of two releases:
 * edges stand last, as in the totals of earlier releases.
 */
const LAST = "identity_edges";
const written: readonly DeclaredTable[] = filled
  .filter(isPostgresTable)
  .flatMap((table): readonly DeclaredTable[] => [table, ...(table.fills ?? [])]);
/** Of each all declared columns are hashed. */
export const postgresTables: readonly DeclaredTable[] = [
  ...written.filter(({ name }) => name !== LAST),
  ...written.filter(({ name }) => name === LAST),
];

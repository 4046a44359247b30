// Deletes what imports leave in object storage: the pieces of a file after its import has ended,
// and the rejected rows 30 days later.
import type { Pool } from "pg";
import type { Objects } from "../../../../infra/objects/objects.ts";
import { transaction } from "../../../../infra/postgres/sql.ts";
import { rewriteRejected } from "../erase-rejected.ts";
import { removeObjects } from "../import-file.ts";
import { endAbandoned, endedImports, noteRemoved } from "../imports.ts";

export interface LeftOverPorts {
  readonly pool: Pool;
  readonly objects: Pick<Objects, "get" | "put" | "list" | "delete">;
}

/** The archive also takes up to 30 days until it is rewritten without an erased person. */
const ERRORS_DAYS = 30;

export const removePieces = async ({ pool, objects }: LeftOverPorts, importId: string): Promise<void> => {
  await removeObjects(objects, importId, "parts");
  await noteRemoved(pool, importId, "file");
};

/**
 * Removes the remains of imports, also of killed processes. It first ends abandoned uploads, and
 * removes erased people from rejected rows.
 */
export const removeLeftOver = async (ports: LeftOverPorts): Promise<void> => {
  const { pool, objects } = ports;
  await endAbandoned(pool);
  await rewriteRejected(ports);
  for (const importId of await endedImports(pool, "file", 0)) await removePieces(ports, importId);
  for (const importId of await endedImports(pool, "errors", ERRORS_DAYS)) {
    await removeObjects(objects, importId, "errors");
    await noteRemoved(pool, importId, "errors");
  }
};

const MOST_AT_ONCE = 100_000;

/**
 * Deletes some of the rows that were claimed 24 months ago, whose events are gone, and returns
 * their number. Rows of undone imports stay, because their ids may not come again.
 */
export const forgetRows = (pool: Pool): Promise<number> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rowCount } = await tx.query(`delete from import_rows where (client_id, event_id) in (
        select client_id, event_id from import_rows where created_at < current_date - interval '24 months'
          and not is_undone limit ${MOST_AT_ONCE})`);
      return rowCount ?? 0;
    },
    { role: "tributary_keeper" },
  );

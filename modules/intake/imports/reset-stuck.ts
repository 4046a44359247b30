// Queues imports again whose process sent no heartbeat for 15 minutes.
import { sql } from "../../../infra/postgres/sql.ts";
import type { Work } from "../../base/work.ts";
import { entityOfImport } from "./import-reads.ts";

/** Covers the caller's clients. Returns the ids in order. */
export const resetStuck = async ({ tx, scope, audit }: Work): Promise<readonly string[]> => {
  const { rows } = await tx.query<{ import_id: string; client_id: number }>(sql`
    update imports set status = 'queued', fence = fence + 1, lease_until = null, leased_by = null
    where status = 'processing' and lease_until < clock_timestamp() and client_id = any (${scope.clients}::int[])
    returning import_id, client_id`);
  const reset = rows.toSorted((a, b) => (a.import_id < b.import_id ? -1 : 1));
  for (const { import_id, client_id } of reset)
    await audit({ action: "import.reset", client_id, entity: entityOfImport(import_id) });
  return reset.map(({ import_id }) => import_id);
};

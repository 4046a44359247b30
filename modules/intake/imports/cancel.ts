// Ends an import. Rows that were sent stay, and are counted.
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";
import type { Work } from "../../base/work.ts";
import { cancellable, entityOfImport, type FileOfImport, importToChange } from "./import-reads.ts";
import { invalidStep } from "./import-refusals.ts";
import { freeUncounted } from "./run/claimed-rows.ts";

/** Throws RefusalError: missing, conflict `invalid_transition`. */
export const cancelImport = async (work: Work, importId: string): Promise<void> => {
  const file = await importToChange(work, importId);
  const { client_id, status } = file;
  if (!cancellable.includes(status)) throw invalidStep(status, "cancelled");
  await cancelWithin(work.tx, file);
  await work.audit({ action: "import.cancelled", client_id, entity: entityOfImport(importId), before: { status } });
};

/**
 * The import must allow cancelling. If a process works on it, it ends after that process's current
 * rows, so that everything that was sent is counted.
 */
export const cancelWithin = async (
  tx: PoolClient,
  { import_id: importId, client_id }: Pick<FileOfImport, "import_id" | "client_id">,
): Promise<void> => {
  const { rowCount } = await tx.query(sql`
    update imports set cancel_requested_at = clock_timestamp(), fence = fence + 1, status = 'cancelled',
      lease_until = null, leased_by = null, finished_at = clock_timestamp()
    where import_id = ${importId}
      and (status in ('pending_upload', 'queued') or (status = 'processing' and lease_until < clock_timestamp()))`);
  if (rowCount === 1) return freeUncounted(tx, { import_id: importId, client_id });
  await tx.query(sql`update imports set cancel_requested_at = clock_timestamp()
    where import_id = ${importId} and status = 'processing'`);
};

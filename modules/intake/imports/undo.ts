// Requests the undo of an import. A job then withdraws, by decisions, what its rows say of their
// orders.
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { askForJob } from "../../base/jobs/jobs.ts";
import { conflict } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { cancellable, entityOfImport, importToChange } from "./import-reads.ts";
import type { KeptUndo, UndoJob } from "./undo-result.ts";

/**
 * Repeated requests return the same job. If rows were not stored then, the undo may be requested
 * again after it has ended. Returns the job. Throws RefusalError: missing, conflict `not_ended`,
 * `already_undone`.
 */
export const undoImport = async (
  work: Work,
  { import_id, reason }: { readonly import_id: string; readonly reason: string },
): Promise<string> => {
  const { tx, act, audit } = work;
  const { client_id, status } = await importToChange(work, import_id);
  if (cancellable.includes(status))
    throw conflict("not_ended", "an import is undone when it has ended: cancel it first");
  const { undone, undone_at } = await undoOf(tx, import_id);
  const isAgain = undone_at !== null && (undone?.not_stored ?? 0) > 0;
  if (undone !== null && undone_at !== null && !isAgain)
    throw conflict("already_undone", "this import is undone", { details: { job_id: undone.job_id } });
  const round = (undone?.round ?? 1) + (isAgain ? 1 : 0);
  // The reason of the first request stays, because decisions already carry it.
  const input: UndoJob = { import_id, reason: undone?.reason ?? reason };
  const key = `${import_id} ${round}`;
  const job_id = await askForJob(tx, { kind: "import_undo", client_id, key, input, created_by: act.actor });
  if (undone?.job_id === job_id) return job_id;
  const kept: KeptUndo = { reason: input.reason, asked_by: act.actor, job_id, round };
  await tx.query(sql`update imports set undone_at = null, undone = ${JSON.stringify(kept)}::jsonb
    where import_id = ${import_id}`);
  await audit({ action: "import.undone", client_id, entity: entityOfImport(import_id), after: { job_id, reason } });
  return job_id;
};

const undoOf = async (tx: PoolClient, importId: string) => {
  const { rows } = await tx.query<{ undone: KeptUndo | null; undone_at: UnixMs | null }>(sql`
    select undone, undone_at from imports where import_id = ${importId}`);
  return rows[0]!;
};

// Erases the recordings of a device: its key goes, and with it what the key opened; the objects go
// with the next purge.
import type { PoolClient } from "pg";
import { lockUntilCommit } from "../../infra/postgres/advisory-lock.ts";
import { sql } from "../../infra/postgres/sql.ts";
import { recordingsLock } from "./recording-store.ts";

/**
 * Inside a transaction that sees the client. Unreadable from the commit on, for every process and
 * in every later backup; a chunk that comes later of the same visits is refused. `subjects` as the
 * list of suppressions has them; those of other kinds were never recorded by themselves.
 */
export const eraseRecordings = async (
  tx: PoolClient,
  clientId: number,
  subjects: readonly { readonly kind: string; readonly subject: string }[],
): Promise<void> => {
  const devices = subjects.flatMap(({ kind, subject }) => (kind === "did" ? [subject] : []));
  if (devices.length === 0) return;
  await lockUntilCommit(tx, recordingsLock(clientId));
  await tx.query(sql`delete from recording_keys
    where client_id = any (${[clientId]}::int[]) and device = any (${devices})`);
  await tx.query(sql`update recordings set device = null, erased_at = clock_timestamp()
    where client_id = any (${[clientId]}::int[]) and device = any (${devices})`);
};

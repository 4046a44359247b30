// Erases the recordings of devices: their keys go, and with them what they opened; the objects
// go with the next purge.
import type { PoolClient } from "pg";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import { recordingsLock } from "./recording-store.ts";

/**
 * Inside a transaction that sees the client. Unreadable from the commit on, for every process and
 * in every later backup; a chunk that comes later of the same visits is refused. `devices` as the
 * log has them.
 */
export const eraseRecordings = async (tx: PoolClient, clientId: number, devices: readonly string[]): Promise<void> => {
  if (devices.length === 0) return;
  await lockUntilCommit(tx, recordingsLock(clientId));
  await tx.query(sql`delete from recording_keys
    where client_id = any (${[clientId]}::int[]) and device = any (${devices})`);
  await tx.query(sql`update recordings set device = null, erased_at = clock_timestamp()
    where client_id = any (${[clientId]}::int[]) and device = any (${devices})`);
};

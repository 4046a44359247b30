// Erases the recordings of devices by deleting their keys, which makes them unreadable at once. The
// next purge deletes the objects.
import type { PoolClient } from "pg";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import { recordingsLock } from "./recording-store.ts";

/**
 * Runs inside a transaction that sees the client. After the commit the recordings are unreadable
 * for every process and in every later backup, and later chunks of the same visits are refused.
 * `devices` are device ids of the log.
 */
export const eraseRecordings = async (tx: PoolClient, clientId: number, devices: readonly string[]): Promise<void> => {
  if (devices.length === 0) return;
  await lockUntilCommit(tx, recordingsLock(clientId));
  await tx.query(sql`delete from recording_keys
    where client_id = any (${[clientId]}::int[]) and device = any (${devices})`);
  await tx.query(sql`update recordings set device = null, erased_at = clock_timestamp()
    where client_id = any (${[clientId]}::int[]) and device = any (${devices})`);
};

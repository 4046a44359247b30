// Deletes recordings older than 90 days, the objects of erased ones, and counts of senders that
// bound nothing any more.
import type { Pool } from "pg";
import { hit } from "#failpoint";
import type { Objects } from "../../../infra/objects/objects.ts";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { recordingsLock } from "./recording-store.ts";
import { type ChunkPlace, objectKeyOf } from "./sealed-chunk.ts";

const KEPT_DAYS = 90;
const DAY_MS = 24 * 3_600_000;
/**
 * A chunk that was named before an erasure is stored within seconds; after this time none follows.
 */
const UNDER_WAY_MS = 10 * 60_000;
const AT_ONCE = 20;

interface ExpiredRecording {
  readonly client_id: number;
  readonly session_id: string;
}

/**
 * Deletes the objects before the rows that name them; after a crash in between the next run deletes
 * the others. Deleting twice has the effect of once, so two keepers need no lock. Returns the
 * number of objects.
 */
export const purgeRecordings = async (
  { pool, objects }: { readonly pool: Pool; readonly objects: Pick<Objects, "delete"> },
  now: UnixMs,
  isClosing: () => boolean = () => false,
): Promise<number> => {
  await forgetSenders(pool, now);
  let deleted = 0;
  while (!isClosing()) {
    const due = await dueNow(pool, now);
    for (const one of due) {
      const places = await placesOf(pool, one);
      for (const place of places) await objects.delete(objectKeyOf(place));
      hit("recording-purged");
      await forget(pool, one);
      deleted += places.length;
      if (isClosing()) return deleted;
    }
    if (due.length < AT_ONCE) return deleted;
  }
  return deleted;
};

const asKeeper = { role: "tributary_keeper" };

const forgetSenders = (pool: Pool, now: UnixMs): Promise<void> =>
  transaction(
    pool,
    null,
    async (tx) => {
      await tx.query(sql`delete from recording_senders where ends_at <= ${new Date(now)}`);
    },
    asKeeper,
  );

const dueNow = (pool: Pool, now: UnixMs): Promise<readonly ExpiredRecording[]> =>
  transaction(
    pool,
    null,
    async (tx) =>
      (
        await tx.query<ExpiredRecording>(sql`select client_id, session_id from recordings
          where started_at < ${new Date(now - KEPT_DAYS * DAY_MS)} or erased_at < ${new Date(now - UNDER_WAY_MS)}
          order by started_at limit ${AT_ONCE}`)
      ).rows,
    asKeeper,
  );

const placesOf = (
  pool: Pool,
  { client_id: clientId, session_id: sessionId }: ExpiredRecording,
): Promise<readonly ChunkPlace[]> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rows } = await tx.query<Pick<ChunkPlace, "page" | "seq">>(sql`select page, seq from recording_chunks
        where client_id = any (${[clientId]}::int[]) and session_id = ${sessionId}`);
      return rows.map((row) => ({ clientId, sessionId, ...row }));
    },
    asKeeper,
  );

/** Deletes the key of a device together with its last recording. */
const forget = (pool: Pool, { client_id: clientId, session_id: sessionId }: ExpiredRecording): Promise<void> =>
  transaction(
    pool,
    null,
    async (tx) => {
      await lockUntilCommit(tx, recordingsLock(clientId));
      const { rows } = await tx.query<{ device: string | null }>(sql`delete from recordings
        where client_id = any (${[clientId]}::int[]) and session_id = ${sessionId} returning device`);
      const device = rows[0]?.device ?? null;
      if (device === null) return;
      await tx.query(sql`delete from recording_keys k
        where client_id = any (${[clientId]}::int[]) and device = ${device} and not exists
          (select 1 from recordings r where r.client_id = k.client_id and r.device = k.device)`);
    },
    asKeeper,
  );

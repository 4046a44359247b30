// A change of reference data begins, and gets the moment from which on every process knows it.
import pg from "pg";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

/**
 * How long a change may work until its stamp: it holds the lock which orders all of them, and no
 * reader counts on it. Postgres ends a longer session.
 */
const workMs = 2_000;
/**
 * How old the stamp can be when the commit begins. Readers count on 1 s from the stamp
 * (reference.ts); the commit has what is left.
 */
const limitMs = 500;
const allowanceMs = 1_000;
/**
 * How far ahead a change takes effect: the 1 s that a commit may take, and the 1 s by which a
 * reader's picture may be old.
 */
const leadMs = 2_000;

/** What a change of a transaction becomes, once that commits. */
interface StampedChange<T> {
  readonly change_id: number;
  readonly recorded_at: UnixMs;
  readonly result: T;
}

/** Waits until no other change of reference data is under way; holds the lock until the commit. */
export const lockReference = (tx: pg.PoolClient): Promise<void> => lockUntilCommit(tx, "tributary.reference");

/** A change that has begun: its rows bear `change_id`, and its moment comes last. */
export interface OpenChange {
  readonly change_id: number;
  readonly now: string;
}

/**
 * About now, and later than every other change: two never share a moment, and a clock that was set
 * back puts none first.
 */
const momentBeside = (changeId: number) => sql`greatest(
  date_trunc('milliseconds', clock_timestamp()) + ${leadMs} * interval '1 millisecond',
  (select max(recorded_at) + interval '1 millisecond' from reference_changes where change_id <> ${changeId}))`;

/**
 * Begins a change inside a transaction: others wait until it ends. It has 2 s until `stampChange`;
 * then Postgres ends the session, and nothing is saved.
 */
export const beginChange = async (tx: pg.PoolClient, actor: string): Promise<OpenChange> => {
  await lockReference(tx);
  // Only now: waiting for others is not slowness.
  await tx.query(`set local transaction_timeout = '${workMs}ms'`);
  const { rows } = await tx.query<OpenChange>(
    "select nextval('reference_change_ids')::int as change_id, to_jsonb(clock_timestamp()) #>> '{}' as now",
  );
  const { change_id } = rows[0]!;
  await tx.query(sql`insert into reference_changes (change_id, recorded_at, actor, is_stamped)
    values (${change_id}, ${momentBeside(change_id)}, ${actor}, false)`);
  return rows[0]!;
};

/**
 * Gives the change its moment, and answers it. What follows in the transaction has 500 ms, for
 * readers count on a commit within 1 s of the moment.
 */
export const stampChange = async (tx: pg.PoolClient, { change_id }: OpenChange): Promise<UnixMs> => {
  const { rows } = await tx.query<{ recorded_at: UnixMs }>(sql`
    update reference_changes set is_stamped = true, recorded_at = ${momentBeside(change_id)}
    where change_id = ${change_id} returning recorded_at`);
  // The age of the stamp counts from here. A limit that is set already is not started again.
  await tx.query(`set local transaction_timeout = 0; set local transaction_timeout = '${limitMs}ms'`);
  return rows[0]!.recorded_at;
};

/**
 * Runs `work` as one change in a transaction of its own: others wait. `work` adds rows with
 * `change_id`, and the last statement writes when they take effect. Throws when it is not done in
 * time; then nothing is saved and the same change can be tried again.
 */
export const recordChange = async <T>(
  pool: pg.Pool,
  actor: string,
  work: (tx: pg.PoolClient, change: { readonly change_id: number; readonly now: string }) => Promise<T>,
): Promise<StampedChange<T> & { readonly isLate: boolean }> => {
  let stampedAt = 0;
  try {
    const saved = await transaction(pool, null, async (tx) => {
      const change = await beginChange(tx, actor);
      const result = await work(tx, change);
      const recorded_at = await stampChange(tx, change);
      stampedAt = performance.now();
      return { change_id: change.change_id, recorded_at, result };
    });
    return { ...saved, isLate: performance.now() - stampedAt > allowanceMs };
  } catch (error) {
    if (!tookTooLong(error)) throw error;
    const times = `${workMs} ms until its stamp, or ${limitMs} ms after it`;
    throw new Error(`the change took longer than ${times}, and was not saved: try again, or split it`, {
      cause: error,
    });
  }
};

/**
 * A change was not saved in time, and nothing of its transaction was: the same can be tried again.
 * 25P04 is transaction_timeout; the session was ended, so what arrives may also be the broken
 * connection.
 */
export const tookTooLong = (error: unknown): boolean =>
  error instanceof Error && ((error instanceof pg.DatabaseError && error.code === "25P04") || tookTooLong(error.cause));

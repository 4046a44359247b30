// Begins a change of reference data, and sets the time at which it takes effect in every process.
import pg from "pg";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

/**
 * How long a change may work before its stamp. It holds the lock that orders all changes, and no
 * reader depends on it. Postgres ends a longer session.
 */
const workMs = 2_000;
/**
 * The greatest age of the stamp when the commit begins. Readers count on a commit within 1 s of the
 * stamp (reference.ts); the commit has the rest of that second.
 */
const limitMs = 500;
const allowanceMs = 1_000;
/**
 * How far ahead a change takes effect: 1 s for the commit, and 1 s by which a reader's snapshot may
 * be old.
 */
const leadMs = 2_000;

/** A stamped change; it counts once its transaction has committed. */
interface StampedChange<T> {
  readonly change_id: number;
  readonly recorded_at: UnixMs;
  readonly result: T;
}

/**
 * Waits until no other change of reference data is in progress, and holds the lock until the
 * commit.
 */
export const lockReference = (tx: pg.PoolClient): Promise<void> => lockUntilCommit(tx, "tributary.reference");

/** A begun change. Its rows carry `change_id`; its time is set last. */
export interface OpenChange {
  readonly change_id: number;
  readonly now: string;
}

/**
 * About now, and later than every other change: no two changes share a time, and a clock that was
 * set back cannot reorder them.
 */
const momentBeside = (changeId: number) => sql`greatest(
  date_trunc('milliseconds', clock_timestamp()) + ${leadMs} * interval '1 millisecond',
  (select max(recorded_at) + interval '1 millisecond' from reference_changes where change_id <> ${changeId}))`;

/**
 * Begins a change inside a transaction; other changes wait until it ends. It has 2 s until
 * `stampChange`. After that Postgres ends the session, and nothing is saved.
 */
export const beginChange = async (tx: pg.PoolClient, actor: string): Promise<OpenChange> => {
  await lockReference(tx);
  // The limit starts after the lock, so that waiting for other changes does not count.
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
 * Sets the time of the change and returns it. The rest of the transaction has 500 ms, because
 * readers count on a commit within 1 s of that time.
 */
export const stampChange = async (tx: pg.PoolClient, { change_id }: OpenChange): Promise<UnixMs> => {
  const { rows } = await tx.query<{ recorded_at: UnixMs }>(sql`
    update reference_changes set is_stamped = true, recorded_at = ${momentBeside(change_id)}
    where change_id = ${change_id} returning recorded_at`);
  // The age of the stamp counts from here. Postgres does not restart a limit that is already set,
  // so it is cleared first.
  await tx.query(`set local transaction_timeout = 0; set local transaction_timeout = '${limitMs}ms'`);
  return rows[0]!.recorded_at;
};

/**
 * Runs `work` as one change in a transaction of its own, while other changes wait. `work` adds rows
 * with `change_id`; the last statement sets the time at which they take effect. Throws if it takes
 * too long; nothing is saved then, and the same change can be tried again.
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
 * Whether a change was too slow, so that nothing was saved and it can be tried again. 25P04 is
 * transaction_timeout. Postgres ends the session then, so the error may also be the broken
 * connection.
 */
export const tookTooLong = (error: unknown): boolean =>
  error instanceof Error && ((error instanceof pg.DatabaseError && error.code === "25P04") || tookTooLong(error.cause));

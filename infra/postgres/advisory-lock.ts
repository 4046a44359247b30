// Locks in Postgres for work that must not run twice at once, in whatever process: each caller
// waits for its turn.
import type { Pool, PoolClient } from "pg";
import { openPool, sql } from "./sql.ts";

type Transaction = Pick<PoolClient, "query">;

/** Waits until no other transaction holds the lock of this name; it is held until the commit. */
export const lockUntilCommit = async (tx: Transaction, name: string): Promise<void> => {
  await tx.query(sql`select pg_advisory_xact_lock(hashtext(${name}))`);
};

/**
 * Takes the lock in shared mode until the commit. Many transactions may share it, but none may hold
 * it exclusively meanwhile.
 */
export const shareUntilCommit = async (tx: Transaction, name: string): Promise<void> => {
  await tx.query(sql`select pg_advisory_xact_lock_shared(hashtext(${name}))`);
};

/** Like `lockUntilCommit`, without waiting: false when another transaction holds the lock. */
export const tryLockUntilCommit = async (tx: Transaction, name: string): Promise<boolean> => {
  const { rows } = await tx.query<{ taken: boolean }>(
    sql`select pg_try_advisory_xact_lock(hashtext(${name})) as taken`,
  );
  return rows[0]!.taken;
};

/**
 * Runs `work` while it alone holds the lock of this name; throws `busy()` when another process
 * holds it. The lock lives as long as its connection, so a dead process releases it.
 */
export const withLockOrThrow = async <T>(
  pool: Pool,
  name: string,
  busy: () => Error,
  work: () => Promise<T>,
): Promise<T> => {
  const session = await pool.connect();
  session.on("error", () => undefined);
  try {
    const { rows } = await session.query<{ mine: boolean }>(
      sql`select pg_try_advisory_lock(hashtext(${name})) as mine`,
    );
    if (!rows[0]!.mine) throw busy();
    try {
      return await work();
    } finally {
      // Postgres notices a closed connection only after a while, and a process that asks at once
      // would be refused.
      await session.query(sql`select pg_advisory_unlock(hashtext(${name}))`).catch(() => undefined);
    }
  } finally {
    session.release(true);
  }
};

/**
 * Runs `work` while no other process on this database runs work with the same `turn`, after waiting
 * for the others. The turn belongs to a session, so a dead process releases it. Throws the error of
 * `work` or of Postgres, e.g. that `mostMs` of waiting are over.
 */
export const withAdvisoryLock = async <T>(
  url: string,
  turn: string,
  mostMs: number,
  work: () => Promise<T>,
): Promise<T> => {
  const pool = openPool(url, { name: turn, max: 1, timeoutMs: mostMs });
  try {
    const session = await pool.connect();
    session.on("error", () => undefined);
    try {
      // A server may be configured to end idle sessions, and this one is idle while `work` runs.
      await session.query("set idle_session_timeout = 0");
      await session.query(sql`select pg_advisory_lock(hashtext(${turn}))`);
      return await work();
    } finally {
      session.release(true);
    }
  } finally {
    await pool.end();
  }
};

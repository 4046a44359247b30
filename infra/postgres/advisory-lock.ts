// Work that must not be done twice at once, wherever its processes run: each waits for its turn in
// Postgres.
import { openPool, sql } from "./sql.ts";

/**
 * Runs `work` while nobody else on this database who names the same `turn` does, after waiting for
 * the others. The turn belongs to a session, so a process that dies gives it back. Throws what
 * `work` threw, or what Postgres says, e.g. that `mostMs` of waiting are over.
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
      // A server may be told to end sessions that ask nothing for a while, and this one asks
      // nothing while `work` goes on.
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

// Deletes identity edges that have expired.
import type { Pool } from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

/**
 * An expired edge links nothing. It is kept for as long as a recording of its device may exist,
 * because an erasure by e-mail finds the recordings through it. By the time it is deleted,
 * retention has removed its events from the log, so that no rewind restores it.
 */
const KEPT_AFTER_MS = 90 * 86_400_000;
const AT_ONCE = 5_000;

/** Returns the number of deleted edges. Two concurrent keepers delete what one would. */
export const purgeIdentityLinks = async (
  pool: Pool,
  now: UnixMs,
  isClosing: () => boolean = () => false,
  atOnce: number = AT_ONCE,
): Promise<number> => {
  for (let deleted = 0; ; ) {
    const rows = isClosing() ? 0 : await purgeSome(pool, new Date(now - KEPT_AFTER_MS), atOnce);
    deleted += rows;
    if (rows < atOnce) return deleted;
  }
};

const purgeSome = (pool: Pool, before: Date, atOnce: number): Promise<number> =>
  transaction(
    pool,
    null,
    async (tx) =>
      (
        await tx.query(sql`delete from identity_edges where ctid = any (array(
          select ctid from identity_edges where expires_at < ${before} order by expires_at limit ${atOnce}))`)
      ).rowCount ?? 0,
    { role: "tributary_keeper" },
  );

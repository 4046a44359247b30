// Ends identity edges that have run out.
import type { Pool } from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

/**
 * An edge that has run out links nothing, and stays for as long as a recorded visit of its device
 * may: who is erased by an e-mail is erased there too. By then the log has nothing of it left, so
 * that no rewind brings it back.
 */
const KEPT_AFTER_MS = 90 * 86_400_000;
const AT_ONCE = 5_000;

/** Two keepers at once delete what one would. Answers how many edges. */
export const purgeEdges = async (
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

// Deletes the personal data of leads after the client's retention period.
import type { Pool } from "pg";
import { monthsBefore } from "../../../domain/calendar.ts";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { ClientRetention } from "../../../sinks/archive/purge.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { forgetPeople } from "./erase.ts";
import { leadsLock } from "./lead-store.ts";

const AT_ONCE = 500;

export interface LeadPurge {
  readonly now: UnixMs;
  readonly isClosing?: () => boolean;
  /** The number of leads in one transaction. */
  readonly atOnce?: number;
}

/**
 * Deletes names, addresses, further fields and the client's own id of a lead, and the keys of
 * subjects without remaining leads. Amounts, products and times stay, and a repeated push stays a
 * duplicate. Two keepers may run it at once. Returns the number of leads.
 */
export const purgeLeads = async (
  pool: Pool,
  clients: readonly ClientRetention[],
  { now, isClosing = () => false, atOnce = AT_ONCE }: LeadPurge,
): Promise<number> => {
  let purged = 0;
  for (const { clientId, months } of clients) {
    const before = new Date(monthsBefore(now, months));
    for (let leads = atOnce; leads === atOnce; purged += leads) {
      if (isClosing()) return purged;
      leads = await purgeSome(pool, clientId, { before, atOnce });
    }
  }
  return purged;
};

const purgeSome = (
  pool: Pool,
  clientId: number,
  { before, atOnce }: { readonly before: Date; readonly atOnce: number },
): Promise<number> =>
  transaction(
    pool,
    null,
    async (tx) => {
      await lockUntilCommit(tx, leadsLock(clientId));
      const { rows } = await tx.query<{ lead_id: string }>(sql`
        update leads set client_lead_id = null where client_id = ${clientId} and lead_id = any (array(
          select lead_id from leads
          where client_id = ${clientId} and received_at < ${before} and client_lead_id is not null
          order by received_at limit ${atOnce}))
        returning lead_id`);
      if (rows.length > 0) await forgetPeople(tx, clientId, { leads: rows.map(({ lead_id }) => lead_id) });
      return rows.length;
    },
    { role: "tributary_keeper" },
  );

// Commission money of each day, read from the ledger: the ledger is the only source of money, not a
// count of events.
import type { Pool } from "pg";
import { transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

export interface EarnedByDay {
  readonly client_id: number;
  /** The day of the sale that earned it, YYYY-MM-DD in America/Mexico_City. */
  readonly day: string;
  readonly currency: string;
  /** The earnings of partners from sales of this day, less later reversals. */
  readonly amount_minor: bigint;
}

const byDay = `
select client_id, to_char(occurred_at at time zone 'America/Mexico_City', 'YYYY-MM-DD') as day, currency,
  sum(amount_minor)::bigint as amount_minor
from ledger_entries
where client_id = any ($1) and occurred_at >= $2 and occurred_at < $3 and amount_minor <> 0
group by 1, 2, 3 order by 1, 2, 3`;

/** Reads the money of sales from `from` (inclusive) to `to` (exclusive). */
export const earnedByDay = (
  pool: Pool,
  clientIds: readonly number[],
  { from, to }: { readonly from: UnixMs; readonly to: UnixMs },
): Promise<readonly EarnedByDay[]> =>
  transaction(
    pool,
    clientIds,
    async (tx) => (await tx.query<EarnedByDay>(byDay, [clientIds, new Date(from), new Date(to)])).rows,
    {
      isReadOnly: true,
    },
  );

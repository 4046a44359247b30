// Reads from the audit what people decided about an order, or about an event without one.
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

export interface DecisionMade {
  readonly id: string;
  readonly at: UnixMs;
  readonly by: string;
  readonly kind: string;
  readonly reason: string;
  /** The event of the line concerned; null: the whole order. */
  readonly event_id: string | null;
  /** The partners that were credited before. */
  readonly from: readonly number[];
  readonly to: number | null;
  /** The amount of a refund: a decimal, or "all". */
  readonly amount: string | null;
  readonly currency: string | null;
}

/** Oldest first, each decision once; `entity` is a name from entityOf. */
export const decisionsAbout = async (
  tx: PoolClient,
  clientId: number,
  entity: string,
): Promise<readonly DecisionMade[]> => {
  const { rows } = await tx.query<DecisionMade>(sql`
    select id, "at", by, kind, reason, event_id, "from", "to", amount, currency from (
      select distinct on (after ->> 'decision_id') audit_id, after ->> 'decision_id' as id, "at", actor as by,
        after ->> 'kind' as kind, after ->> 'reason' as reason, after ->> 'event_id' as event_id,
        coalesce(before -> 'partner_ids', '[]') as "from", (after ->> 'partner_id')::int as "to",
        after ->> 'amount' as amount, after ->> 'currency' as currency
      from audit
      where client_id = ${clientId} and entity = ${entity} and after ? 'decision_id'
      order by after ->> 'decision_id', audit_id) once
    order by audit_id`);
  return rows;
};

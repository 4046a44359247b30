// Reads the percentage that partners are paid for purchases on a day.
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";
import { alias, covers } from "./contract-reads.ts";

interface InForce {
  readonly partner_id: number;
  readonly segment: string | null;
  readonly type: string;
  readonly rate: string | null;
}

/**
 * The rate of the contract for purchases that is in force on a day; a contract of the segment
 * precedes one of all segments. Null if there is none, or if it does not pay by percentage only.
 */
export const percentRatesOn = async (
  tx: PoolClient,
  clientId: number,
  partners: readonly number[],
  day: string,
): Promise<(partnerId: number, segment: string | null) => string | null> => {
  const { rows } = await tx.query<InForce>(sql`
    select distinct on (partner_id, segment) partner_id, segment, type, trim_scale(rate)::text as rate from (
      select distinct on (contract_id) * from segment_commissions
      where client_id = ${clientId} and partner_id = any (${partners}::int[]) and event_type = 'purchase'
      order by contract_id, version desc) k
    where ${covers(alias("k"), sql`${day}::date`)}
    order by partner_id, segment, effective_from desc`);
  const of = (partnerId: number, segment: string | null): InForce | undefined =>
    rows.find((row) => row.partner_id === partnerId && row.segment === segment);
  return (partnerId, segment) => {
    const found = of(partnerId, segment) ?? of(partnerId, null);
    return found?.type === "percent" ? found.rate : null;
  };
};

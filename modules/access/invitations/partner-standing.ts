// What of a partner decides whether something may be given to it.
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";

export interface PartnerStanding {
  readonly name: string;
  readonly status: "invited" | "active" | "paused" | "archived";
  /** Names of some of these clients that it works for. */
  readonly clients: string;
}

/** The partner as it is now, when it works for one of these clients; undefined for any other. */
export const partnerStanding = async (
  tx: PoolClient,
  partnerId: number,
  clients: readonly number[],
): Promise<PartnerStanding | undefined> => {
  const { rows } = await tx.query<PartnerStanding>(sql`
    select name, status, (
      select string_agg(c.name, ', ' order by c.name) from (
        select distinct on (client_id) client_id, name from clients
        where client_id = any (newest.client_ids) and client_id = any (${clients}::int[])
        order by client_id, version desc limit 5) c) as clients
    from (
      select * from partners where partner_id = ${partnerId} order by version desc limit 1) newest
    where client_ids && ${clients}::int[]`);
  return rows[0];
};

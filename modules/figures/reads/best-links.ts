// The links of a partner that brought most. A partner has one link a campaign.
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";

export interface LinkOfCampaign {
  readonly campaign_id: number;
  readonly campaign: string;
  readonly code: string;
}

/** Returns the partner's newest link in each of these campaigns. */
export const linksIn = async (
  tx: PoolClient,
  partnerId: number,
  campaigns: readonly number[],
): Promise<readonly LinkOfCampaign[]> => {
  const { rows } = await tx.query<LinkOfCampaign>(sql`
    select distinct on (l.campaign_id) l.campaign_id, l.code,
      (select name from campaigns c where c.campaign_id = l.campaign_id order by version desc limit 1) as campaign
    from links l where l.partner_id = ${partnerId} and l.campaign_id = any (${campaigns}::int[])
    order by l.campaign_id, l.link_id desc, l.version desc`);
  return rows;
};

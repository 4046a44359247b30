// Whether a partner may be credited for sales of a client now, by the newest rows of each.
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";

export interface Creditable {
  /** Undefined: there is no such client in scope. */
  readonly client: string | undefined;
  /** Its status; undefined: it does not work for the client. */
  readonly partner: string | undefined;
  /** Its status; undefined: it is not one of the client, or none is asked for. */
  readonly campaign: string | undefined;
}

/** The statuses of those that a credit names, inside the transaction that gives it. */
export const creditable = async (
  tx: PoolClient,
  clientId: number,
  named: { readonly partner_id: number | null; readonly campaign_id: number | null },
): Promise<Creditable> => {
  const { rows } = await tx.query<Record<keyof Creditable, string | null>>(sql`
    select
      (select status from clients where client_id = ${clientId} order by version desc limit 1) as client,
      (select status from (
        select status, client_ids from partners where partner_id = ${named.partner_id} order by version desc limit 1) p
        where ${clientId} = any (client_ids)) as partner,
      (select status from (
        select status, client_id from campaigns where campaign_id = ${named.campaign_id}
        order by version desc limit 1) c
        where client_id = ${clientId}) as campaign`);
  const { client, partner, campaign } = rows[0]!;
  return { client: client ?? undefined, partner: partner ?? undefined, campaign: campaign ?? undefined };
};

/** Why these may not be credited; undefined: they may. An ended campaign may: sales of its time. */
export const creditRefused = (
  { partner, campaign }: Creditable,
  campaignId: number | null,
): "partner_not_of_client" | "partner_archived" | "campaign_not_of_client" | undefined => {
  if (partner === undefined) return "partner_not_of_client";
  if (partner === "archived") return "partner_archived";
  return campaignId !== null && campaign === undefined ? "campaign_not_of_client" : undefined;
};

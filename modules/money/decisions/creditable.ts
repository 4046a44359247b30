// Checks whether a partner may be credited with sales of a client now, by the newest rows of each.
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";
import { archived } from "../../access/standing.ts";
import { invalid, type RefusalError } from "../../base/refusal.ts";
import { notOfClient } from "../../catalog/partners/named-partners.ts";

export interface Creditable {
  /** The client's status; undefined if there is no such client in scope. */
  readonly client: string | undefined;
  /** The partner's status; undefined: it does not work for the client. */
  readonly partner: string | undefined;
  /** The campaign's status; undefined: the client has no such campaign, or none was requested. */
  readonly campaign: string | undefined;
}

/** Null: no partner, or no campaign. */
export interface Credit {
  readonly partner_id: number | null;
  readonly campaign_id: number | null;
}

/**
 * Reads the statuses of the records that a credit names, inside the transaction that gives the
 * credit.
 */
const creditable = async (tx: PoolClient, clientId: number, named: Credit): Promise<Creditable> => {
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

/** Does the same, and looks up each pair only once. */
export const creditables = (tx: PoolClient, clientId: number): ((named: Credit) => Promise<Creditable>) => {
  const known = new Map<string, Promise<Creditable>>();
  return (named) => {
    const key = `${named.partner_id} ${named.campaign_id}`;
    const found = known.get(key) ?? creditable(tx, clientId, named);
    known.set(key, found);
    return found;
  };
};

/**
 * Returns why these may not be credited; undefined: they may. An ended campaign may still be
 * credited with sales of its time.
 */
export const creditRefusal = (
  { partner, campaign }: Creditable,
  campaignId: number | null,
): RefusalError | undefined => {
  if (partner === undefined) return notOfClient("/partner_id", "this partner does not work for the client");
  if (partner === "archived") return archived("partner", { message: "the partner is archived" });
  if (campaignId === null || campaign !== undefined) return undefined;
  return invalid("/campaign_id", "campaign_not_of_client", "this campaign is not one of the client");
};

/** Sales of an archived client cannot be decided about. Throws RefusalError `client_archived`. */
export const refuseArchivedClient = ({ client }: Creditable): void => {
  if (client === "archived") throw archived("client", { message: "the client is archived" });
};

/**
 * Throws RefusalError unless the client is not archived and these may be credited with its sales:
 * conflict `client_archived`, `partner_archived`, invalid `partner_not_of_client`,
 * `campaign_not_of_client`.
 */
export const checkCredit = async (tx: PoolClient, clientId: number, named: Credit): Promise<void> => {
  const found = await creditable(tx, clientId, named);
  refuseArchivedClient(found);
  const refusal = named.partner_id === null ? undefined : creditRefusal(found, named.campaign_id);
  if (refusal !== undefined) throw refusal;
};

// Reads whether a client or partner may receive something, e.g. a token. Access is below the
// catalog, so it reads this itself.
import type { PoolClient } from "pg";
import { sql } from "../../infra/postgres/sql.ts";
import { conflict, missing, type Refusal, type RefusalError } from "../base/refusal.ts";
import type { Work } from "../base/work.ts";

/** The refusal of an archived client or partner, to which nothing is given any more. */
export const archived = (
  what: "client" | "partner",
  { path = "", message = `this ${what} is archived` }: Partial<Pick<Refusal, "path" | "message">> = {},
): RefusalError => conflict(what === "client" ? "client_archived" : "partner_archived", message, { path });

export interface PartnerStanding {
  readonly name: string;
  readonly status: "invited" | "active" | "paused" | "archived";
  /** Names of up to five of the given clients for which the partner works. */
  readonly clients: string;
}

/** The current partner if it works for one of these clients, otherwise undefined. */
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

interface ClientStanding {
  readonly name: string;
  readonly status: string;
}

/** The current client if it is one of these, otherwise undefined. */
const clientStanding = async (
  tx: PoolClient,
  clientId: number,
  clients: readonly number[],
): Promise<ClientStanding | undefined> => {
  if (!clients.includes(clientId)) return undefined;
  const { rows } = await tx.query<ClientStanding>(sql`
    select name, status from clients where client_id = ${clientId} order by version desc limit 1`);
  return rows[0];
};

export interface Owner {
  readonly client_id?: number | null | undefined;
  /** Used only if no client is given. */
  readonly partner_id?: number | null | undefined;
}

/**
 * Returns the client or partner that is to receive something. Throws RefusalError: missing if the
 * caller does not see it, conflict `client_archived`, `partner_archived`.
 */
export const checkOwner = async (
  { tx, scope }: Pick<Work, "tx" | "scope">,
  { client_id, partner_id }: Owner,
): Promise<{ readonly name: string; readonly clients?: string }> => {
  const what = client_id == null ? "partner" : "client";
  const owner =
    client_id == null
      ? await partnerStanding(tx, partner_id!, scope.clients)
      : await clientStanding(tx, client_id, scope.clients);
  if (owner === undefined) throw missing();
  const { status, ...facts } = owner;
  if (status === "archived") throw archived(what);
  return facts;
};

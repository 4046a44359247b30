// Reads whether a client or partner may receive something, e.g. a token. Access is below the
// catalog, so it reads this itself.
import type { PoolClient } from "pg";
import { sql } from "../../infra/postgres/sql.ts";
import { conflict, forbidden, missing, type Refusal, type RefusalError } from "../base/refusal.ts";
import type { Scope, Work } from "../base/work.ts";

/** The refusal of an archived client or partner, to which nothing is given any more. */
export const archived = (
  what: "client" | "partner",
  { path = "", message = `this ${what} is archived` }: Partial<Pick<Refusal, "path" | "message">> = {},
): RefusalError => conflict(what === "client" ? "client_archived" : "partner_archived", message, { path });

/**
 * For what acts on a partner at all of its clients: its account, its address, its upload token, its
 * people. `known_to` are the clients that it works or worked for, since history and balance stay
 * there. Throws RefusalError: forbidden `shared_partner`.
 */
export const needWholePartner = ({ clients }: Pick<Scope, "clients">, known_to: readonly number[]): void => {
  if (known_to.every((id) => clients.includes(id))) return;
  const message = "this also acts at clients of the partner that you do not manage: an admin does it";
  throw forbidden("", message, "shared_partner");
};

/**
 * The clients at which something of the partner is good: null for every client, also later ones, if
 * a caller who sees all clients gives it; otherwise those of today.
 */
export const boundTo = ({ isAll }: Pick<Scope, "isAll">, known_to: readonly number[]): readonly number[] | null =>
  isAll ? null : known_to;

export interface PartnerStanding {
  readonly name: string;
  readonly status: "invited" | "active" | "paused" | "archived";
  /** Names of up to five of the given clients for which the partner works. */
  readonly clients: string;
  /** All clients for which the partner works or worked. */
  readonly known_to: readonly number[];
}

/** The current partner if it works for one of these clients, otherwise undefined. */
export const partnerStanding = async (
  tx: PoolClient,
  partnerId: number,
  clients: readonly number[],
): Promise<PartnerStanding | undefined> => {
  const { rows } = await tx.query<PartnerStanding>(sql`
    select name, status, known_to, (
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
/** The client or partner that is to receive something. */
export interface CheckedOwner {
  /** The names that a mail says. */
  readonly names: { readonly name: string; readonly clients?: string };
  /** The clients that what the partner receives is bound to (boundTo). */
  readonly client_ids: readonly number[] | null;
}

/**
 * Throws RefusalError: missing if the caller does not see it, conflict `client_archived`,
 * `partner_archived`, forbidden `shared_partner`.
 */
export const checkOwner = async ({ tx, scope }: Pick<Work, "tx" | "scope">, owner: Owner): Promise<CheckedOwner> => {
  const { client_id, partner_id } = owner;
  if (client_id != null) {
    const { name } = inUse("client", await clientStanding(tx, client_id, scope.clients));
    return { names: { name }, client_ids: null };
  }
  const { name, clients, known_to } = inUse("partner", await partnerStanding(tx, partner_id!, scope.clients));
  needWholePartner(scope, known_to);
  return { names: { name, clients }, client_ids: boundTo(scope, known_to) };
};

/**
 * For what was given to a partner and is taken away. Throws RefusalError: missing, forbidden
 * `shared_partner`.
 */
export const checkWholePartner = async (
  { tx, scope }: Pick<Work, "tx" | "scope">,
  partnerId: number,
): Promise<void> => {
  if (scope.isAll) return;
  const found = await partnerStanding(tx, partnerId, scope.clients);
  if (found === undefined) throw missing();
  needWholePartner(scope, found.known_to);
};

const inUse = <T extends { readonly status: string }>(what: "client" | "partner", found: T | undefined): T => {
  if (found === undefined) throw missing();
  if (found.status === "archived") throw archived(what);
  return found;
};

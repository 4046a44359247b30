// One partner as its reader sees it.
import type { PoolClient } from "pg";
import { readPartnerAccess } from "../../access/users/partner-access.ts";
import type { User } from "../../access/users/users.ts";
import { linkAddress, type PublicHosts } from "../../base/public-hosts.ts";
import { missing } from "../../base/refusal.ts";
import type { Scope } from "../../base/work.ts";
import type { DashboardPartner } from "../../figures/dashboards/partner.ts";
import { clientsAmong, linksOfPartner, readPartner, type ShownRow } from "./partner-reads.ts";

export type Reader = Pick<User, "role" | "partner_id">;

/**
 * Throws RefusalError: missing for a partner that asks for another. By their tenants alone,
 * partners of one client would see each other's rows.
 */
export const refuseOtherPartner = ({ role, partner_id }: Reader, partnerId: number): void => {
  if (role === "partner" && partner_id !== partnerId) throw missing();
};

/** Throws RefusalError: missing. */
const openPartner = async (
  tx: PoolClient,
  { clients }: Pick<Scope, "clients">,
  partnerId: number,
  fields: readonly string[],
) => {
  const found = await readPartner(tx, partnerId, clients, fields);
  if (found === undefined) throw missing();
  return found;
};

/** Throws RefusalError: missing. */
export const openPartnerFor = async (
  tx: PoolClient,
  scope: Pick<Scope, "clients">,
  reader: Reader,
  partnerId: number,
  fields: readonly string[] = [],
) => {
  refuseOtherPartner(reader, partnerId);
  return openPartner(tx, scope, partnerId, fields);
};

/**
 * The partner with its clients, its links and, if asked for, its users. Throws RefusalError:
 * missing.
 */
export const partnerDetail = async (
  tx: PoolClient,
  scope: Pick<Scope, "clients">,
  partnerId: number,
  { fields, hosts }: { readonly fields: readonly string[]; readonly hosts: Pick<PublicHosts, "tracking"> },
): Promise<ShownRow> => {
  const { shown, state } = await openPartner(tx, scope, partnerId, fields);
  const links = await linksOfPartner(tx, partnerId, scope.clients);
  return {
    ...shown,
    clients: await clientsAmong(tx, state.client_ids, scope.clients),
    links: links.map((link) => ({ ...link, url: linkAddress(hosts, link.code) })),
    ...(fields.includes("users") && (await readPartnerAccess(tx, partnerId, scope.clients))),
  };
};

/**
 * The partner of a dashboard. Throws RefusalError: missing when none of these clients knows the
 * partner.
 */
export const dashboardPartner = async (
  tx: PoolClient,
  scope: Scope,
  reader: Reader,
  { partner_id, client_id }: { readonly partner_id: number; readonly client_id?: number | undefined },
): Promise<DashboardPartner> => {
  const { state, shown } = await openPartnerFor(tx, scope, reader, partner_id, ["payout", "balance"]);
  const clients = state.known_to.filter(
    (id) => scope.clients.includes(id) && (client_id === undefined || id === client_id),
  );
  if (clients.length === 0) throw missing();
  return { clients, payout: shown.payout, balance: shown.balance };
};

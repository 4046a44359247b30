// The routes of partners.
import type { PoolClient } from "pg";
import { readPartnerAccess } from "../../../../modules/access/users/partner-access.ts";
import { missing } from "../../../../modules/base/refusal.ts";
import type { Scope } from "../../../../modules/base/work.ts";
import { archivePartner } from "../../../../modules/catalog/partners/archive.ts";
import { changePartner } from "../../../../modules/catalog/partners/change.ts";
import { createPartner } from "../../../../modules/catalog/partners/create.ts";
import {
  clientsAmong,
  linksOfPartner,
  partnerRows,
  readPartner,
  type ShownRow,
  shownPartner,
} from "../../../../modules/catalog/partners/partner-reads.ts";
import * as contracts from "../../contract/partners/partners.ts";
import { defined } from "../../request/accept.ts";
import { checkFilter } from "../../request/filter.ts";
import { type Route, route } from "../../route.ts";

export const routes = (): readonly Route[] => [
  route(contracts.listPartners, async (ask) => {
    await checkFilter(ask, ask.query.client_id);
    return ask.list(partnerRows(ask.query), async (rows) => rows.map(shownPartner));
  }),

  route(contracts.createPartner, ({ write, body, fields }) =>
    write(
      (work) => createPartner(work, defined(body)),
      async (id, { tx, scope }) => ({
        body: await detailOf(tx, id, scope, fields),
        headers: { Location: `/api/partners/${id}` },
      }),
    ),
  ),

  route(contracts.readPartner, ({ read, params, fields, user }) =>
    read(async (tx, scope) => {
      // Partners of one client see the rows of each other by their tenant alone.
      if (user.role === "partner" && user.partner_id !== params.id) throw missing();
      return { body: await detailOf(tx, params.id, scope, fields) };
    }),
  ),

  route(contracts.changePartner, ({ write, params, body, fields, version }) => {
    const { version: _, ...patch } = defined(body);
    return write(
      (work) => changePartner(work, { partner_id: params.id, patch: defined(patch), version }),
      async (_, { tx, scope }) => ({ body: await detailOf(tx, params.id, scope, fields) }),
    );
  }),

  route(contracts.archivePartner, ({ write, params, version }) =>
    write(
      (work) => archivePartner(work, { partner_id: params.id, version }),
      () => ({}),
    ),
  ),
];

/** The partner as its contract shows it. Throws RefusalError: missing. */
const detailOf = async (
  tx: PoolClient,
  partnerId: number,
  { clients }: Scope,
  fields: readonly string[],
): Promise<ShownRow> => {
  const found = await readPartner(tx, partnerId, clients, fields);
  if (found === undefined) throw missing();
  const links = await linksOfPartner(tx, partnerId, clients);
  return {
    ...found.shown,
    clients: await clientsAmong(tx, found.state.client_ids, clients),
    links: links.map((link) => ({ ...link, url: `/c/${link.code}` })),
    ...(fields.includes("users") && (await readPartnerAccess(tx, partnerId))),
  };
};

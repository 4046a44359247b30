// The routes of partners.
import { archivePartner } from "../../../../modules/catalog/partners/archive.ts";
import { changePartner } from "../../../../modules/catalog/partners/change.ts";
import { createPartner } from "../../../../modules/catalog/partners/create.ts";
import { partnerDetail, refuseOtherPartner } from "../../../../modules/catalog/partners/partner-detail.ts";
import { partnerRows, shownPartner } from "../../../../modules/catalog/partners/partner-reads.ts";
import * as contracts from "../../contract/partners/partners.ts";
import { checkFilter } from "../../request/filter.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

export const routes = ({ hosts }: Pick<ApiPorts, "hosts">): readonly Route[] => [
  route(contracts.listPartners, async (ask) => {
    await checkFilter(ask, ask.query.client_id);
    return ask.list(partnerRows(ask.query), async (rows) => rows.map(shownPartner));
  }),

  route(contracts.createPartner, ({ write, input, fields }) =>
    write(
      (work) => createPartner(work, input),
      async (id, { tx, scope }) => ({
        body: await partnerDetail(tx, scope, id, { fields, hosts }),
        headers: { Location: `/api/partners/${id}` },
      }),
    ),
  ),

  route(contracts.readPartner, async ({ read, params, fields, user }) => {
    refuseOtherPartner(user, params.id);
    return { body: await read((tx, scope) => partnerDetail(tx, scope, params.id, { fields, hosts })) };
  }),

  route(contracts.changePartner, ({ write, params, input, fields, version }) =>
    write(
      (work) => changePartner(work, { partner_id: params.id, patch: input, version }),
      async (_, { tx, scope }) => ({ body: await partnerDetail(tx, scope, params.id, { fields, hosts }) }),
    ),
  ),

  route(contracts.archivePartner, ({ write, params, version }) =>
    write((work) => archivePartner(work, { partner_id: params.id, version })),
  ),
];

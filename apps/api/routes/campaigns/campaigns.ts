// The routes of campaigns.
import { archiveCampaign } from "../../../../modules/catalog/campaigns/archive.ts";
import { campaignWithWarnings, shownLaunch } from "../../../../modules/catalog/campaigns/campaign-detail.ts";
import { campaignRows, readCampaign } from "../../../../modules/catalog/campaigns/campaign-reads.ts";
import { changeCampaign } from "../../../../modules/catalog/campaigns/change.ts";
import { createCampaign } from "../../../../modules/catalog/campaigns/create.ts";
import { launchCampaign } from "../../../../modules/catalog/campaigns/launch.ts";
import * as contracts from "../../contract/campaigns/campaigns.ts";
import { fieldsOf } from "../../contract/contract.ts";
import { checkFilter } from "../../request/filter.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

export const routes = ({ hosts }: Pick<ApiPorts, "hosts">): readonly Route[] => [
  route(contracts.listCampaigns, async (ask) => {
    const { client_id, archived } = ask.query;
    await checkFilter(ask, client_id);
    return ask.list(campaignRows({ ...ask.query, archived: archived === "true" }, hosts));
  }),

  route(contracts.readCampaign, async ({ read, params, fields }) => ({
    body: await read((tx, { clients }) => readCampaign(tx, params.id, clients, { fields, hosts })),
  })),

  route(contracts.createCampaign, ({ write, input, fields }) =>
    write(
      (work) => createCampaign(work, input),
      async (id, { tx, scope }) => ({
        body: await campaignWithWarnings(tx, id, scope.clients, { fields, hosts }),
        headers: { Location: `/api/campaigns/${id}` },
      }),
    ),
  ),

  route(contracts.changeCampaign, ({ write, params, input, fields, version }) =>
    write(
      (work) => changeCampaign(work, { campaign_id: params.id, patch: input, version }),
      async (_, { tx, scope }) => ({
        body: await campaignWithWarnings(tx, params.id, scope.clients, { fields, hosts }),
      }),
    ),
  ),

  route(contracts.archiveCampaign, ({ write, params, version }) =>
    write((work) => archiveCampaign(work, { campaign_id: params.id, version })),
  ),

  route(contracts.launchCampaign, ({ write, params, body, role, version }) =>
    write(
      (work) => launchCampaign(work, { ...body, campaign_id: params.id, version }),
      async (saved, { tx, scope }) => {
        const fields = fieldsOf(contracts.readCampaign, role);
        return { body: { ...saved, ...(await shownLaunch(tx, params.id, scope.clients, { fields, hosts })) } };
      },
    ),
  ),
];

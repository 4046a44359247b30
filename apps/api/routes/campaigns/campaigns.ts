// The routes of campaigns.
import type { PoolClient } from "pg";
import { missing } from "../../../../modules/base/refusal.ts";
import { archiveCampaign } from "../../../../modules/catalog/campaigns/archive.ts";
import { warningsOf } from "../../../../modules/catalog/campaigns/campaign-fields.ts";
import {
  campaignRows,
  campaignState,
  linksOf,
  readCampaign,
} from "../../../../modules/catalog/campaigns/campaign-reads.ts";
import { changeCampaign } from "../../../../modules/catalog/campaigns/change.ts";
import { createCampaign } from "../../../../modules/catalog/campaigns/create.ts";
import { launchCampaign } from "../../../../modules/catalog/campaigns/launch.ts";
import * as contracts from "../../contract/campaigns/campaigns.ts";
import { fieldsOf } from "../../contract/contract.ts";
import { defined } from "../../request/accept.ts";
import { checkFilter } from "../../request/filter.ts";
import { type Route, route } from "../../route.ts";

export const routes = (): readonly Route[] => [
  route(contracts.listCampaigns, async (ask) => {
    const { client_id, archived } = ask.query;
    await checkFilter(ask, client_id);
    return ask.list(campaignRows({ ...ask.query, archived: archived === "true" }));
  }),

  route(contracts.readCampaign, async ({ read, params, fields }) => {
    const body = await read((tx, { clients }) => readCampaign(tx, params.id, clients, fields));
    if (body === undefined) throw missing();
    return { body };
  }),

  route(contracts.createCampaign, ({ write, body, fields }) =>
    write(
      (work) => createCampaign(work, defined(body)),
      async (id, { tx, scope }) => ({
        body: await withWarnings(tx, id, scope.clients, fields),
        headers: { Location: `/api/campaigns/${id}` },
      }),
    ),
  ),

  route(contracts.changeCampaign, ({ write, params, body, fields, version }) => {
    const { version: _, ...patch } = body;
    return write(
      (work) => changeCampaign(work, { campaign_id: params.id, patch: defined(patch), version }),
      async (_, { tx, scope }) => ({ body: await withWarnings(tx, params.id, scope.clients, fields) }),
    );
  }),

  route(contracts.archiveCampaign, ({ write, params, version }) =>
    write(
      (work) => archiveCampaign(work, { campaign_id: params.id, version }),
      () => ({}),
    ),
  ),

  route(contracts.launchCampaign, ({ write, params, body, role, version }) =>
    write(
      (work) => launchCampaign(work, { ...body, campaign_id: params.id, version }),
      async (saved, { tx, scope }) => {
        const names = fieldsOf(contracts.readCampaign, role);
        const { warnings, ...campaign } = await withWarnings(tx, params.id, scope.clients, names);
        const links = campaign.links.filter(({ status }: { readonly status: string }) => status === "active");
        return { body: { ...saved, campaign, links, warnings } };
      },
    ),
  ),
];

/** The campaign as it is shown, with what may be meant otherwise. */
const withWarnings = async (
  tx: PoolClient,
  id: number,
  clients: readonly number[],
  names: readonly string[],
): Promise<Readonly<Record<string, any>>> => {
  const { patterns } = (await campaignState(tx, id, clients))!;
  const used = (await linksOf(tx, id)).filter(({ status }) => status === "active");
  const partners = new Set(used.map(({ partner_id }) => partner_id));
  return { ...(await readCampaign(tx, id, clients, names)), warnings: warningsOf(patterns, partners.size) };
};

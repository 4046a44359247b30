// The routes of campaigns; the launch is in campaign-launch.ts.
import {
  type CampaignState,
  campaignRows,
  campaignState,
  linksOf,
  readCampaign,
} from "../../../../modules/catalog/campaigns/campaign-reads.ts";
import { readClient } from "../../../../modules/catalog/clients/client-reads.ts";
import { openClient } from "../../../../modules/catalog/clients/open-client.ts";
import { lockReference } from "../../../../modules/catalog/reference/open-change.ts";
import {
  campaignToChange,
  checkHosts,
  checkMove,
  checkPartners,
  partnersOfPatterns,
  warningsOf,
} from "../../campaigns/checks.ts";
import { linkChanges } from "../../campaigns/links.ts";
import * as contracts from "../../contract/campaigns/campaigns.ts";
import { defined, notFound } from "../../request/accept.ts";
import { type Route, route, type Work } from "../../route.ts";

export const routes = (): readonly Route[] => [
  route(contracts.listCampaigns, async ({ list, read, query }) => {
    const { client_id, archived } = query;
    if (client_id !== undefined)
      await read(async (tx, { clients }) => {
        if ((await readClient(tx, client_id, clients, [])) === undefined) throw notFound();
      });
    return list(campaignRows({ ...query, archived: archived === "true" }));
  }),

  route(contracts.readCampaign, async ({ read, params, fields }) => {
    const body = await read((tx, { clients }) => readCampaign(tx, params.id, clients, fields));
    if (body === undefined) throw notFound();
    return { body };
  }),

  route(contracts.createCampaign, ({ write, body, fields }) =>
    write(async (work) => {
      const { change, audit } = work;
      const { client_id } = body;
      const given = defined(body);
      await openClient(work, client_id);
      await checkHosts(work, client_id, given);
      await checkPartners(work, client_id, partnersOfPatterns(given.patterns));
      const saved = await change({ campaigns: [{ campaign_id: -1, ...(given as object) }] });
      const id = saved.idOf("campaigns", -1);
      await audit({ action: "campaign.created", client_id, entity: `campaign:${id}`, after: given });
      return { body: await shownOf(work, id, fields), headers: { Location: `/api/campaigns/${id}` } };
    }),
  ),

  route(contracts.changeCampaign, ({ write, params, body, fields, checkVersion }) =>
    write(async (work) => {
      const { change, audit } = work;
      const { version: _, partner_ids, ...given } = body;
      const patch = defined(given);
      const before = await campaignToChange(work, params.id);
      const { client_id } = before;
      checkVersion(before.version);
      checkMove(before.status, patch.status);
      await checkHosts(work, client_id, patch);
      await checkPartners(work, client_id, partnersOfPatterns(patch.patterns));
      const wanted = { campaign_id: params.id, client_id, pointer: "/partner_ids", isWhole: true };
      const links = partner_ids === undefined ? [] : await linkChanges(work, { ...wanted, partners: partner_ids });
      if (Object.keys(patch).length + links.length > 0) {
        await change({ campaigns: [{ campaign_id: params.id, ...(patch as object) }], links });
        await audit({ ...entryOf("campaign.updated", before), after: { ...before, ...patch, partner_ids } });
      }
      return { body: await shownOf(work, params.id, fields) };
    }),
  ),

  route(contracts.archiveCampaign, ({ write, params, checkVersion }) =>
    write(async (work) => {
      const { tx, scope, change, audit } = work;
      await lockReference(tx);
      const before = await campaignState(tx, params.id, scope.clients);
      if (before === undefined) throw notFound();
      if (before.archived) return {};
      await openClient(work, before.client_id);
      checkVersion(before.version);
      const after = { status: "ended" as const, archived: true };
      await change({ campaigns: [{ campaign_id: params.id, ...after }] });
      await audit({ ...entryOf("campaign.archived", before), after });
      return {};
    }),
  ),
];

const entryOf = (action: string, before: CampaignState) => ({
  action,
  client_id: before.client_id,
  entity: `campaign:${before.id}`,
  before,
});

/** The campaign after its change, with what may be meant otherwise. */
const shownOf = async ({ tx, scope }: Work, id: number, fields: readonly string[]) => {
  const { patterns } = (await campaignState(tx, id, scope.clients))!;
  const links = await linksOf(tx, id);
  const partners = new Set(links.filter(({ status }) => status === "active").map(({ partner_id }) => partner_id));
  return { ...(await readCampaign(tx, id, scope.clients, fields)), warnings: warningsOf(patterns, partners.size) };
};

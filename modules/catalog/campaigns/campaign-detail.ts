// A campaign as the person that saves it sees it: with warnings.
import type { PoolClient } from "pg";
import type { ShownRow } from "../clients/client-reads.ts";
import { warningsOf } from "./campaign-fields.ts";
import { type CampaignView, campaignOf, linksOf, readCampaign } from "./campaign-reads.ts";

/** These fields of the campaign, and warnings about its patterns. Throws RefusalError: missing. */
export const campaignWithWarnings = async (
  tx: PoolClient,
  campaignId: number,
  clients: readonly number[],
  view: CampaignView,
): Promise<ShownRow> => {
  const { patterns } = await campaignOf(tx, campaignId, clients);
  const used = (await linksOf(tx, campaignId)).filter(({ status }) => status === "active");
  const partners = new Set(used.map(({ partner_id }) => partner_id));
  const shown = await readCampaign(tx, campaignId, clients, view);
  return { ...shown, warnings: warningsOf(patterns, partners.size) };
};

/** The campaign that was launched, with its active links beside it. */
export const shownLaunch = async (
  tx: PoolClient,
  campaignId: number,
  clients: readonly number[],
  view: CampaignView,
) => {
  const { warnings, ...campaign } = await campaignWithWarnings(tx, campaignId, clients, view);
  const links = campaign.links.filter(({ status }: { readonly status: string }) => status === "active");
  return { campaign, links, warnings };
};

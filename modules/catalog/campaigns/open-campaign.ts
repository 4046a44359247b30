// Opens the campaign that a use case changes.
import { conflict, type RefusalError } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { openClient } from "../clients/open-client.ts";
import { lockReference } from "../reference/open-change.ts";
import { type CampaignState, campaignOf } from "./campaign-reads.ts";

/**
 * Returns the campaign and locks reference data until the commit. Throws RefusalError: missing,
 * `client_archived`, `campaign_archived`.
 */
export const openCampaign = async (work: Work, campaignId: number): Promise<CampaignState> => {
  const found = await lockCampaign(work, campaignId);
  await openClient(work, found.client_id);
  if (found.archived) throw campaignArchived();
  return found;
};

/** Does the same for a campaign that may be archived. Throws RefusalError: missing. */
export const lockCampaign = async ({ tx, scope }: Work, campaignId: number): Promise<CampaignState> => {
  await lockReference(tx);
  return campaignOf(tx, campaignId, scope.clients);
};

const campaignArchived = (): RefusalError => conflict("campaign_archived", "this campaign is archived");

/** The name of a campaign in the audit. */
export const entityOf = (campaignId: number): string => `campaign:${campaignId}`;

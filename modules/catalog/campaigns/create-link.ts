// Makes a link with a code that the caller chooses.
import { invalid } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { namedPartners, refuseInactive } from "../partners/named-partners.ts";
import { changeReference } from "../reference/change.ts";
import { campaignState } from "./campaign-reads.ts";
import { openCampaign } from "./open-campaign.ts";

export interface LinkInput {
  readonly campaign_id: number;
  readonly partner_id: number;
  readonly code: string;
  readonly status: "active" | "archived";
}

/**
 * Returns the id. The campaign gets a new version, as with any change of its links. Throws
 * RefusalError: invalid `unknown` and `partner_not_of_client`, `client_archived`,
 * `campaign_archived`, `partner_inactive`, and a refusal of a code that is taken.
 */
export const createLink = async (work: Work, input: LinkInput): Promise<number> => {
  const { campaign_id, partner_id, status } = input;
  if ((await campaignState(work.tx, campaign_id, work.scope.clients)) === undefined)
    throw invalid("/campaign_id", "unknown", `no campaign has the id ${campaign_id}`);
  const { client_id } = await openCampaign(work, campaign_id);
  const named = [{ id: partner_id, path: "/partner_id" }];
  const statuses = await namedPartners(work, client_id, named);
  if (status === "active") refuseInactive(statuses, named);
  const saved = await changeReference(work, { links: [{ link_id: -1, ...input }], campaigns: [{ campaign_id }] });
  const id = saved.idOf("links", -1);
  await work.audit({ action: "link.created", client_id, entity: `link:${id}`, after: input });
  return id;
};

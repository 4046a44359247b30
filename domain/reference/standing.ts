// Checks whether a partner may earn on a campaign at a moment. Credits are judged by it, and it
// decides whether a tracking link is in use.
import type { UnixMs } from "../../stream/flow.ts";
import type { Link, ReferenceAt } from "./reference.ts";

export interface Engagement {
  readonly client_id: number;
  readonly partner_id: number;
  readonly campaign_id: number | null;
  readonly link: Link | null;
}

/**
 * Null if the partner may earn: the partner is active and works for the client, the link is in use,
 * and the campaign is the client's, active and within its dates.
 */
export const standingFault = (
  { client_id, partner_id, campaign_id, link }: Engagement,
  reference: ReferenceAt,
  at: UnixMs,
): "partner_inactive" | "campaign_inactive" | null => {
  const partner = reference.partner(partner_id);
  if (partner?.status !== "active" || !partner.client_ids.includes(client_id)) return "partner_inactive";
  // An archived link no longer earns for its campaign.
  if (link !== null && link.status !== "active") return "campaign_inactive";
  if (campaign_id === null) return null;
  const campaign = reference.campaign(campaign_id);
  const isRunning =
    campaign !== undefined &&
    campaign.client_id === client_id &&
    campaign.status === "active" &&
    (campaign.starts_at === null || campaign.starts_at <= at) &&
    (campaign.ends_at === null || at < campaign.ends_at);
  return isRunning ? null : "campaign_inactive";
};

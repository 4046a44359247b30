// Switches a link on or off.
import { missing } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { namedPartners, refuseInactive } from "../partners/named-partners.ts";
import { changeReference } from "../reference/change.ts";
import { lockReference } from "../reference/open-change.ts";
import { type LinkState, readLink } from "./campaign-reads.ts";
import { openCampaign } from "./open-campaign.ts";

export interface LinkChange {
  readonly link_id: number;
  readonly status: LinkState["status"];
}

/**
 * The campaign gets a new version, as with any change of its links. Throws RefusalError: missing,
 * `client_archived`, `campaign_archived`, `partner_inactive`, invalid `partner_not_of_client`.
 */
export const changeLink = async (work: Work, { link_id, status }: LinkChange): Promise<void> => {
  await lockReference(work.tx);
  const before = await readLink(work.tx, link_id, work.scope.clients);
  if (before === undefined) throw missing();
  const { campaign_id, partner_id } = before;
  const { client_id } = await openCampaign(work, campaign_id);
  if (before.status === status) return;
  if (status === "active") {
    const named = [{ id: partner_id, path: "/partner_id" }];
    refuseInactive(await namedPartners(work, client_id, named), named);
  }
  await changeReference(work, { links: [{ link_id, status }], campaigns: [{ campaign_id }] });
  await work.audit({
    ...{ action: "link.updated", client_id, entity: `link:${link_id}` },
    ...{ before: { status: before.status }, after: { status } },
  });
};

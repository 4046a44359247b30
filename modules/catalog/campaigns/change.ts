// Changes a campaign and the list of partners that have a link of it.
import { checkVersion } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { namedPartners } from "../partners/named-partners.ts";
import { changeReference } from "../reference/change.ts";
import { type CampaignFields, partnersIn, recordOf, refuseForeignPages, refuseMove } from "./campaign-fields.ts";
import type { CampaignState } from "./campaign-reads.ts";
import { linksFor } from "./links.ts";
import { entityOf, openCampaign } from "./open-campaign.ts";

interface CampaignPatch extends Partial<CampaignFields> {
  readonly status?: CampaignState["status"];
  /** All partners that are to have a link; the links of other partners are switched off. */
  readonly partner_ids?: readonly number[];
}
export interface CampaignChange {
  readonly campaign_id: number;
  readonly patch: CampaignPatch;
  /** The version that the caller has seen; undefined: any. */
  readonly version: number | undefined;
}

/**
 * Throws RefusalError: missing, `client_archived`, `campaign_archived`, `version_conflict`,
 * `invalid_transition`, `partner_inactive`, invalid `foreign_destination`, `partner_not_of_client`
 * and `duplicate_item`.
 */
export const changeCampaign = async (work: Work, { campaign_id, patch, version }: CampaignChange): Promise<void> => {
  const before = await openCampaign(work, campaign_id);
  const { client_id } = before;
  checkVersion(version, before.version);
  const { partner_ids, ...fields } = patch;
  refuseMove(before.status, fields.status);
  await refuseForeignPages(work, client_id, fields);
  await namedPartners(work, client_id, partnersIn(fields.patterns));
  const links =
    partner_ids === undefined
      ? []
      : await linksFor(work, before, { partners: partner_ids, path: "/partner_ids", isWhole: true });
  if (Object.keys(fields).length + links.length === 0) return;
  await changeReference(work, { campaigns: [{ campaign_id, ...recordOf(fields) }], links });
  const after = { ...before, ...patch };
  await work.audit({ action: "campaign.updated", client_id, entity: entityOf(campaign_id), before, after });
};

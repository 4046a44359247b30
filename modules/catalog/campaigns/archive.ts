// Ends and archives a campaign. Its sales stay, and its links lead to the fallback page.
import { checkVersion } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { openClient } from "../clients/open-client.ts";
import { changeReference } from "../reference/change.ts";
import { entityOf, lockCampaign } from "./open-campaign.ts";

/**
 * Does nothing if it is archived already. Throws RefusalError: missing, `client_archived`,
 * `version_conflict`.
 */
export const archiveCampaign = async (
  work: Work,
  { campaign_id, version }: { readonly campaign_id: number; readonly version: number | undefined },
): Promise<void> => {
  const before = await lockCampaign(work, campaign_id);
  if (before.archived) return;
  const { client_id } = before;
  await openClient(work, client_id);
  checkVersion(version, before.version);
  const after = { status: "ended" as const, archived: true };
  await changeReference(work, { campaigns: [{ campaign_id, ...after }] });
  await work.audit({ action: "campaign.archived", client_id, entity: entityOf(campaign_id), before, after });
};

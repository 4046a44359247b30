// Makes a campaign, as a draft without links.
import type { Work } from "../../base/work.ts";
import { openClient } from "../clients/open-client.ts";
import { namedPartners } from "../partners/named-partners.ts";
import { changeReference } from "../reference/change.ts";
import { type CampaignFields, partnersIn, recordOf, refuseForeignPages } from "./campaign-fields.ts";
import { entityOf } from "./open-campaign.ts";

export type CampaignInput = Partial<CampaignFields> &
  Pick<CampaignFields, "name" | "destination_url"> & { readonly client_id: number };

/**
 * Returns the id. Throws RefusalError: missing or archived client, invalid `foreign_destination`
 * and `partner_not_of_client`.
 */
export const createCampaign = async (work: Work, input: CampaignInput): Promise<number> => {
  const { client_id, ...fields } = input;
  await openClient(work, client_id);
  await refuseForeignPages(work, client_id, fields);
  await namedPartners(work, client_id, partnersIn(fields.patterns));
  const saved = await changeReference(work, { campaigns: [{ campaign_id: -1, client_id, ...recordOf(fields) }] });
  const id = saved.idOf("campaigns", -1);
  await work.audit({ action: "campaign.created", client_id, entity: entityOf(id), after: input });
  return id;
};

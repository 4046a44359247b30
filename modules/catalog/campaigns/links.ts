// Works out the link changes that a list of partners needs, and makes link codes.
import { randomBytes } from "node:crypto";
import type { Work } from "../../base/work.ts";
import { namedPartners, refuseInactive, refuseRepeated } from "../partners/named-partners.ts";
import type { ReferenceChanges } from "../reference/entities.ts";
import { type CampaignState, linksOf } from "./campaign-reads.ts";

/** 72 random bits, so that links cannot be guessed. */
export const newLinkCode = (): string => randomBytes(9).toString("base64url");

interface LinkedPartners {
  readonly partners: readonly number[];
  /** The place of the list in the input. */
  readonly path: string;
  /** If true, links of partners outside of the list are switched off. */
  readonly isWhole: boolean;
}

/**
 * Returns the change that gives each partner one link. A partner that comes back gets its former
 * code. Throws RefusalError: invalid `duplicate_item` and `partner_not_of_client`;
 * `partner_inactive` for a partner that is paused or archived and has no active link.
 */
export const linksFor = async (
  work: Work,
  { id: campaign_id, client_id }: Pick<CampaignState, "id" | "client_id">,
  { partners, path, isWhole }: LinkedPartners,
): Promise<NonNullable<ReferenceChanges["links"]>> => {
  const named = partners.map((id, n) => ({ id, path: `${path}/${n}` }));
  refuseRepeated(named);
  const statuses = await namedPartners(work, client_id, named);
  const links = await linksOf(work.tx, campaign_id);
  const used = links.filter(({ status }) => status === "active");
  const lacking = named.filter(({ id }) => !used.some(({ partner_id }) => partner_id === id));
  refuseInactive(statuses, lacking);
  const added = lacking.map(({ id: partner_id }, n) => {
    const former = links.find((link) => link.partner_id === partner_id);
    return former === undefined
      ? { link_id: -1 - n, campaign_id, partner_id, code: newLinkCode() }
      : { link_id: former.link_id, status: "active" as const };
  });
  const ended = isWhole ? used.filter(({ partner_id }) => !partners.includes(partner_id)) : [];
  return [...added, ...ended.map(({ link_id }) => ({ link_id, status: "archived" as const }))];
};

// The links that a campaign needs for a list of partners: one each.
import { randomBytes } from "node:crypto";
import { linksOf } from "../../../modules/catalog/campaigns/campaign-reads.ts";
import type { ReferenceChanges } from "../../../modules/catalog/reference/records.ts";
import type { Work } from "../route.ts";
import { checkActive, checkOnce, checkPartners } from "./checks.ts";

/** 72 bits: no one finds a link by guessing. */
export const newLinkCode = (): string => randomBytes(9).toString("base64url");

interface Wanted {
  readonly campaign_id: number;
  readonly client_id: number;
  readonly partners: readonly number[];
  /** Where the list stands in the body. */
  readonly pointer: string;
  /** Links of those who are not named go off. */
  readonly isWhole: boolean;
}

/**
 * A partner without a link gets one, and one that comes back has its former code. Throws Problem
 * 400 for a partner of others, 409 for one that is paused or archived and has no link here.
 */
export const linkChanges = async (work: Work, wanted: Wanted): Promise<NonNullable<ReferenceChanges["links"]>> => {
  const { campaign_id, client_id, partners, pointer, isWhole } = wanted;
  checkOnce(partners, pointer);
  const named = partners.map((partnerId, n) => [partnerId, `${pointer}/${n}`] as const);
  const statuses = await checkPartners(work, client_id, named);
  const known = await linksOf(work.tx, campaign_id);
  const isOn = (partnerId: number): boolean =>
    known.some(({ partner_id, status }) => partner_id === partnerId && status === "active");
  const missing = named.filter(([partnerId]) => !isOn(partnerId));
  checkActive(statuses, missing);
  const added = missing.map(([partner_id], n) => {
    const former = known.find((link) => link.partner_id === partner_id);
    return former === undefined
      ? { link_id: -1 - n, campaign_id, partner_id, code: newLinkCode() }
      : { link_id: former.link_id, status: "active" as const };
  });
  const off = known.filter(
    ({ partner_id, status }) => isWhole && status === "active" && !partners.includes(partner_id),
  );
  return [...added, ...off.map(({ link_id }) => ({ link_id, status: "archived" as const }))];
};

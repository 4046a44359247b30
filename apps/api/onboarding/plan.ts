// What an onboarding is to make, as one change of reference data, after the checks that need no
// database: every fault names its place in the body.
import { dayOf } from "../../../domain/calendar.ts";
import { refuseLocked } from "../../../modules/catalog/budgets/open-month.ts";
import { refuseOutside, warningsOf } from "../../../modules/catalog/campaigns/campaign-fields.ts";
import type { Pattern } from "../../../modules/catalog/campaigns/campaign-reads.ts";
import { newLinkCode } from "../../../modules/catalog/campaigns/links.ts";
import { refuseRepeated } from "../../../modules/catalog/partners/named-partners.ts";
import { newReferralCode, payoutOf } from "../../../modules/catalog/partners/partner-fields.ts";
import type { PartnerState } from "../../../modules/catalog/partners/partner-reads.ts";
import { hostsIn } from "../../../modules/catalog/pixel/hosts.ts";
import type { ReferenceChanges } from "../../../modules/catalog/reference/records.ts";
import type { onboardClient } from "../contract/clients/onboard.ts";
import { defined, fault } from "../request/accept.ts";
import type { Ask } from "../route.ts";

export type Body = Ask<typeof onboardClient>["body"];
type Ref = Body["commissions"][number]["partner"];

/** Each is a row, a change, an announcement and a mail of one transaction. */
const MOST_LINKS = 1_000;
/** In the place of the id that the client will get. */
export const CLIENT = -1;

/** A partner that is made has the negative id by which the change names it. */
interface PlannedPartner {
  readonly partner_id: number;
  readonly key: string | null;
  readonly place: string;
  /** Null: it is there already. */
  readonly made: NewPartner | null;
}
interface NewPartner {
  readonly name: string;
  readonly email: string;
  readonly status: "active" | "invited";
  readonly client_ids: readonly number[];
  readonly payout: ReturnType<typeof payoutOf>;
  readonly referral_code: string;
}
interface PlannedLink {
  readonly link_id: number;
  readonly partner_id: number;
  readonly code: string;
  readonly place: string;
}
interface PlannedCampaign {
  readonly campaign_id: number;
  readonly given: Body["campaigns"][number];
  readonly patterns: readonly Pattern[];
  readonly links: readonly PlannedLink[];
}
export interface Plan {
  readonly body: Body;
  readonly allowed_domains: readonly string[];
  readonly partners: readonly PlannedPartner[];
  readonly contracts: readonly (Omit<Body["commissions"][number], "partner"> & { readonly partner_id: number })[];
  readonly campaigns: readonly PlannedCampaign[];
}

/** Throws Problem 400 and, for a first day in a locked month, 409. */
export const planOf = (body: Body): Plan => {
  const { allowed_domains: hosts = [] } = body.pixel_config;
  const allowed_domains = hostsIn(hosts, "/pixel_config/allowed_domains");
  const partners = partnersOf(body.partners);
  const idOf = (ref: Ref, pointer: string): number => {
    const found = partners.find(({ partner_id, key }) => ref === (typeof ref === "number" ? partner_id : key));
    if (found !== undefined) return found.partner_id;
    throw fault(pointer, "partner_not_of_client", `none of the partners of this request is ${ref}: list it there`);
  };
  const contracts = body.commissions.map(({ partner, ...terms }, n) => ({
    ...terms,
    partner_id: idOf(partner, `/commissions/${n}/partner`),
  }));
  const campaigns = body.campaigns.map((given, n) => campaignOf(given, n, allowed_domains, idOf));
  const links = campaigns.reduce((sum, campaign) => sum + campaign.links.length, 0);
  if (links > MOST_LINKS)
    throw fault("/campaigns", "too_big", `at most ${MOST_LINKS} links at once: give some partners theirs later`);
  for (const [n, { effective_from }] of body.commissions.entries())
    refuseLocked(effective_from, `/commissions/${n}/effective_from`, Date.now());
  return { body, allowed_domains, partners, contracts, campaigns: numbered(campaigns) };
};

const partnersOf = (given: Body["partners"]): readonly PlannedPartner[] => {
  const seen = new Set<string>();
  const once = (kind: string, value: string | number, place: string): void => {
    const name = `${kind}:${String(value).toLowerCase()}`;
    if (seen.has(name)) throw fault(`${place}/${kind}`, "duplicate_item", "stands in this list before: give it once");
    seen.add(name);
  };
  return given.map(({ id, key, name, email, payout, referral_code, invite = false }, n) => {
    const place = `/partners/${n}`;
    if (id !== undefined) {
      once("id", id, place);
      return { partner_id: id, key: null, place, made: null };
    }
    // The contract asks for all three of a new one.
    once("key", key!, place);
    once("email", email!, place);
    const status = invite ? "invited" : "active";
    const made = { name: name!, email: email!, status, payout: payoutOf(payout, place) } as const;
    const code = referral_code ?? newReferralCode();
    return { partner_id: -1 - n, key: key!, place, made: { ...made, client_ids: [CLIENT], referral_code: code } };
  });
};

const campaignOf = (
  given: Body["campaigns"][number],
  n: number,
  domains: readonly string[],
  idOf: (ref: Ref, pointer: string) => number,
): PlannedCampaign => {
  const place = `/campaigns/${n}`;
  const { destination_url, fallback_url = null, ends_on, launch } = given;
  refuseOutside(domains, { destination_url, fallback_url }, place);
  const partners = given.partners.map((ref, m) => idOf(ref, `${place}/partners/${m}`));
  refuseRepeated(partners.map((id, m) => ({ id, path: `${place}/partners/${m}` })));
  if (launch && partners.length === 0) throw fault(`${place}/partners`, "too_small", "a launch needs a partner");
  if (launch && ends_on != null && ends_on < dayOf(Date.now()))
    throw fault(`${place}/ends_on`, "ends_in_past", `the campaign ended on ${ends_on}: give it another day`);
  const patterns = given.patterns.map(({ partner, ...pattern }, m) => ({
    ...pattern,
    ...(partner !== undefined && { partner_id: idOf(partner, `${place}/patterns/${m}/partner`) }),
  }));
  const links = partners.map((partner_id, m) => ({
    ...{ link_id: 0, partner_id, code: newLinkCode(), place: `${place}/partners/${m}` },
  }));
  return { campaign_id: -1 - n, given, patterns, links };
};

/** Links have ids over all campaigns. */
const numbered = (campaigns: readonly PlannedCampaign[]): readonly PlannedCampaign[] => {
  let last = 0;
  return campaigns.map((campaign) => ({
    ...campaign,
    links: campaign.links.map((link) => {
      last -= 1;
      return { ...link, link_id: last };
    }),
  }));
};

/** The change, with partners that are there as they are now. */
export const changesOf = (plan: Plan, known: ReadonlyMap<number, PartnerState>): ReferenceChanges => {
  const { client, segments, pixel_config } = plan.body;
  const { jurisdiction, consent_default } = pixel_config;
  return {
    clients: [{ client_id: CLIENT, ...(defined({ ...client, jurisdiction, consent_default }) as object) }],
    segments: segments.map((segment) => ({ client_id: CLIENT, ...segment })),
    partners: plan.partners.map(({ partner_id, made }) => ({
      partner_id,
      ...(made ?? { client_ids: [...known.get(partner_id)!.client_ids, CLIENT] }),
    })),
    contracts: plan.contracts.map((terms) => ({ ...terms, client_id: CLIENT })),
    campaigns: plan.campaigns.map(({ campaign_id, given, patterns }) => {
      const { partners: _, launch, ...record } = given;
      const status = launch ? "active" : "draft";
      return { campaign_id, client_id: CLIENT, ...defined({ ...record, status, patterns }) };
    }),
    links: plan.campaigns.flatMap(({ campaign_id, links }) =>
      links.map(({ link_id, partner_id, code }) => ({ link_id, campaign_id, partner_id, code })),
    ),
  } as unknown as ReferenceChanges;
};

/** Where an entry of the change stands in the body. */
export const placeIn =
  ({ campaigns }: Plan) =>
  (entity: string, n: number): string => {
    if (entity === "clients") return "/client";
    if (entity === "links") return campaigns.flatMap(({ links }) => links)[n]?.place ?? "";
    return `/${entity === "contracts" ? "commissions" : entity}/${n}`;
  };

/** What may be meant otherwise, and is saved all the same. */
export const warningsIn = ({ campaigns }: Plan) =>
  campaigns.flatMap(({ patterns, links }, n) =>
    warningsOf(patterns, links.length).map((one) => ({ ...one, pointer: `/campaigns/${n}${one.pointer}` })),
  );

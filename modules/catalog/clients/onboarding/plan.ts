// Turns an onboarding into one change of reference data, after the checks that need no database.
// Each refusal names its place in the input.
import type { UnixMs } from "../../../../stream/flow.ts";
import { invalid } from "../../../base/refusal.ts";
import { refuseLocked } from "../../budgets/open-month.ts";
import { refuseEnded, refuseOutside, warningsOf } from "../../campaigns/campaign-fields.ts";
import type { Pattern } from "../../campaigns/campaign-reads.ts";
import { newLinkCode } from "../../campaigns/links.ts";
import { notOfClient, refuseRepeated } from "../../partners/named-partners.ts";
import { newReferralCode, type Payout, payoutOf } from "../../partners/partner-fields.ts";
import type { PartnerState } from "../../partners/partner-reads.ts";
import { hostsIn } from "../../pixel/hosts.ts";
import type { ReferenceChanges } from "../../reference/entities.ts";
import type {
  OnboardingCampaign,
  OnboardingCommission,
  OnboardingInput,
  OnboardingPartner,
  PartnerRef,
} from "./input.ts";

/** Each link costs a row, a change, an announcement and a mail in one transaction. */
const MOST_LINKS = 1_000;
/** Stands for the id that the client will get. */
export const CLIENT = -1;

/** A new partner has the negative id under which the change names it. */
export interface PlannedPartner {
  readonly partner_id: number;
  readonly key: string | null;
  readonly place: string;
  /** Null: the partner exists already. */
  readonly made: NewPartner | null;
}
interface NewPartner {
  readonly name: string;
  readonly email: string;
  readonly status: "active" | "invited";
  readonly client_ids: number[];
  readonly payout: Payout;
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
  readonly input: OnboardingCampaign;
  readonly patterns: readonly Pattern[];
  readonly links: readonly PlannedLink[];
}
type PlannedContract = Omit<OnboardingCommission, "partner"> & { readonly partner_id: number };
export interface Plan {
  readonly input: OnboardingInput;
  readonly partners: readonly PlannedPartner[];
  readonly contracts: readonly PlannedContract[];
  readonly campaigns: readonly PlannedCampaign[];
}

/**
 * Throws RefusalError: invalid `partner_not_of_client`, `duplicate_item`, `too_big`, `too_small`,
 * `ends_in_past`, `foreign_destination` and `bad_amount`; `month_closed` if a first day is in a
 * locked month.
 */
export const planOf = (input: OnboardingInput, now: UnixMs): Plan => {
  const domains = hostsIn(input.pixel_config.allowed_domains ?? [], "/pixel_config/allowed_domains");
  const partners = partnersOf(input.partners);
  const idOf = (ref: PartnerRef, path: string): number => {
    const found = partners.find(({ partner_id, key }) => ref === (typeof ref === "number" ? partner_id : key));
    if (found !== undefined) return found.partner_id;
    throw notOfClient(path, `none of the partners of this request is ${ref}: list it there`);
  };
  const contracts = input.commissions.map(({ partner, ...terms }, n) => ({
    ...terms,
    partner_id: idOf(partner, `/commissions/${n}/partner`),
  }));
  const campaigns = input.campaigns.map((campaign, n) =>
    campaignOf(campaign, `/campaigns/${n}`, -1 - n, { domains, idOf, now }),
  );
  const links = campaigns.reduce((sum, campaign) => sum + campaign.links.length, 0);
  if (links > MOST_LINKS)
    throw invalid("/campaigns", "too_big", `at most ${MOST_LINKS} links at once: give some partners theirs later`);
  for (const [n, { effective_from }] of input.commissions.entries())
    refuseLocked(effective_from, `/commissions/${n}/effective_from`, now);
  return { input, partners, contracts, campaigns: numbered(campaigns) };
};

const partnersOf = (partners: readonly OnboardingPartner[]): readonly PlannedPartner[] => {
  const seen = new Set<string>();
  const once = (kind: string, value: string | number, place: string): void => {
    const name = `${kind}:${String(value).toLowerCase()}`;
    if (seen.has(name)) throw invalid(`${place}/${kind}`, "duplicate_item", "stands in this list before: give it once");
    seen.add(name);
  };
  return partners.map(({ id, key, name, email, payout, referral_code, invite = false }, n) => {
    const place = `/partners/${n}`;
    if (id !== undefined) {
      once("id", id, place);
      return { partner_id: id, key: null, place, made: null };
    }
    // The contract of the API requires all three for a new partner.
    once("key", key!, place);
    once("email", email!, place);
    const status = invite ? "invited" : "active";
    const made = { name: name!, email: email!, status, payout: payoutOf(payout, place) } as const;
    const code = referral_code ?? newReferralCode();
    return { partner_id: -1 - n, key: key!, place, made: { ...made, client_ids: [CLIENT], referral_code: code } };
  });
};

interface CampaignContext {
  /** The client's hosts. */
  readonly domains: readonly string[];
  readonly idOf: (ref: PartnerRef, path: string) => number;
  readonly now: UnixMs;
}
const campaignOf = (
  input: OnboardingCampaign,
  place: string,
  campaign_id: number,
  { domains, idOf, now }: CampaignContext,
): PlannedCampaign => {
  const { destination_url, fallback_url = null, ends_on, launch } = input;
  refuseOutside(domains, { destination_url, fallback_url }, place);
  const named = input.partners.map((ref, n) => {
    const path = `${place}/partners/${n}`;
    return { id: idOf(ref, path), path };
  });
  refuseRepeated(named);
  if (launch && named.length === 0) throw invalid(`${place}/partners`, "too_small", "a launch needs a partner");
  if (launch) refuseEnded(ends_on, now, { path: `${place}/ends_on`, cure: "give it another day" });
  const patterns = input.patterns.map(({ partner, ...pattern }, n) => ({
    ...pattern,
    ...(partner !== undefined && { partner_id: idOf(partner, `${place}/patterns/${n}/partner`) }),
  }));
  const links = named.map(({ id: partner_id, path }) => ({
    ...{ link_id: 0, partner_id, code: newLinkCode(), place: path },
  }));
  return { campaign_id, input, patterns, links };
};

/** Numbers the links across all campaigns. */
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

/** Returns the change; existing partners keep their current fields. */
export const changesOf = (plan: Plan, known: ReadonlyMap<number, PartnerState>): ReferenceChanges => {
  const { client, segments, pixel_config } = plan.input;
  const { jurisdiction, consent_default } = pixel_config;
  const law = { ...(jurisdiction && { jurisdiction }), ...(consent_default !== undefined && { consent_default }) };
  return {
    clients: [{ client_id: CLIENT, ...client, ...law }],
    segments: segments.map((segment) => ({ client_id: CLIENT, ...segment })),
    partners: plan.partners.map(({ partner_id, made }) => ({
      partner_id,
      ...(made ?? { client_ids: [...known.get(partner_id)!.client_ids, CLIENT] }),
    })),
    contracts: plan.contracts.map((terms) => ({ ...terms, client_id: CLIENT })),
    campaigns: plan.campaigns.map(({ campaign_id, input, patterns }) => {
      const { partners: _, launch, fallback_url = null, starts_on = null, ends_on = null, ...campaign } = input;
      const status = launch ? ("active" as const) : ("draft" as const);
      const record = { ...campaign, fallback_url, starts_on, ends_on, status, patterns: [...patterns] };
      return { campaign_id, client_id: CLIENT, ...record };
    }),
    links: plan.campaigns.flatMap(({ campaign_id, links }) =>
      links.map(({ link_id, partner_id, code }) => ({ link_id, campaign_id, partner_id, code })),
    ),
  };
};

/** The place in the input of an entry of the change. */
export const placeIn =
  ({ campaigns }: Plan) =>
  (entity: string, n: number): string => {
    if (entity === "clients") return "/client";
    if (entity === "links") return campaigns.flatMap(({ links }) => links)[n]?.place ?? "";
    return `/${entity === "contracts" ? "commissions" : entity}/${n}`;
  };

/** Warnings about settings that are saved although they may be a mistake. */
export const warningsIn = ({ campaigns }: Plan) =>
  campaigns.flatMap(({ patterns, links }, n) =>
    warningsOf(patterns, links.length).map((one) => ({ ...one, pointer: `/campaigns/${n}${one.pointer}` })),
  );

// The input of an onboarding: a client with everything that it needs.
import type { CampaignFields } from "../../campaigns/campaign-fields.ts";
import type { Pattern } from "../../campaigns/campaign-reads.ts";
import type { ContractTerms } from "../../contracts/save.ts";
import type { PayoutInput } from "../../partners/partner-fields.ts";
import type { PixelPatch } from "../../pixel/change.ts";
import type { ClientInput } from "../create.ts";
import type { SegmentInput } from "../create-segment.ts";

/** The key of a new partner of this input, or the id of an existing partner that it lists. */
export type PartnerRef = string | number;

export interface OnboardingInput {
  readonly client: ClientInput;
  /** If empty, the client gets the six standard segments. */
  readonly segments: readonly SegmentInput[];
  readonly partners: readonly OnboardingPartner[];
  readonly commissions: readonly OnboardingCommission[];
  readonly campaigns: readonly OnboardingCampaign[];
  readonly pixel_config: PixelPatch;
}

/** An existing partner has only an id; a new one has a key, a name and an address. */
export interface OnboardingPartner {
  readonly id?: number | undefined;
  readonly key?: string | undefined;
  readonly name?: string | undefined;
  readonly email?: string | undefined;
  readonly payout?: PayoutInput | undefined;
  /** If left out, a random code is made. */
  readonly referral_code?: string | undefined;
  readonly invite?: boolean | undefined;
}

export interface OnboardingCommission extends Omit<ContractTerms, "client_id" | "partner_id" | "effective_from"> {
  readonly partner: PartnerRef;
  readonly effective_from: string;
}

export interface OnboardingCampaign extends Pick<CampaignFields, "name" | "destination_url"> {
  readonly fallback_url?: string | null | undefined;
  readonly starts_on?: string | null | undefined;
  readonly ends_on?: string | null | undefined;
  readonly patterns: readonly (Omit<Pattern, "partner_id"> & { readonly partner?: PartnerRef | undefined })[];
  /** Partners that get a link. */
  readonly partners: readonly PartnerRef[];
  /** False: the campaign stays a draft. */
  readonly launch: boolean;
}

// The result of an onboarding: the ids of everything that it made.
import type { WrittenIds } from "../../reference/writer.ts";
import type { OnboardingCampaign } from "./input.ts";
import { CLIENT, type Plan, type PlannedPartner } from "./plan.ts";

export interface MadeCampaign {
  readonly id: number;
  readonly name: string;
  readonly status: "active" | "draft";
  readonly input: OnboardingCampaign;
  readonly links: readonly {
    readonly partner_id: number;
    readonly code: string;
    readonly status: "active";
  }[];
}
export interface OnboardingResult {
  readonly client_id: number;
  readonly client_name: string;
  readonly change_id: number;
  readonly partners: readonly (PlannedPartner & { readonly id: number })[];
  /** Ids of the contracts in the order of the input. */
  readonly contractIds: readonly number[];
  readonly campaigns: readonly MadeCampaign[];
}

export const resultOf = (plan: Plan, { change_id, idOf, contractIds }: WrittenIds): OnboardingResult => ({
  ...{ client_id: idOf("clients", CLIENT), client_name: plan.input.client.name, change_id, contractIds },
  partners: plan.partners.map((partner) => ({ ...partner, id: idOf("partners", partner.partner_id) })),
  campaigns: plan.campaigns.map(({ campaign_id, input, links }) => ({
    ...{ id: idOf("campaigns", campaign_id), name: input.name, input, status: input.launch ? "active" : "draft" },
    links: links.map(({ partner_id, code }) => ({
      ...{ partner_id: idOf("partners", partner_id), code, status: "active" },
    })),
  })),
});

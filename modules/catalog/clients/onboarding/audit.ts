// Rows of the audit for an onboarding.
import type { AuditEntry } from "../../../base/audit/audit.ts";
import { entityOf as campaignEntity } from "../../campaigns/open-campaign.ts";
import { entityOf as partnerEntity } from "../../partners/open-partner.ts";
import type { PartnerState } from "../../partners/partner-reads.ts";
import { entityOf } from "../open-client.ts";
import type { PartnerInvitation } from "./partners.ts";
import type { Plan } from "./plan.ts";
import type { OnboardingResult } from "./result.ts";

interface OnboardingContext {
  /** The existing partners before the onboarding. */
  readonly known: ReadonlyMap<number, PartnerState>;
  readonly token_id: number;
  readonly invitations: readonly PartnerInvitation[];
}

/** One row for each record that was made or changed. */
export const entriesOf = (
  { input, contracts }: Plan,
  { client_id, partners, campaigns, contractIds }: OnboardingResult,
  { known, token_id, invitations }: OnboardingContext,
): readonly AuditEntry[] => {
  const entry = (action: string, entity: string, after: unknown, before?: unknown): AuditEntry => ({
    ...{ action, client_id, entity, after },
    ...(before !== undefined && { before }),
  });
  const made = {
    ...{ partners: partners.map(({ id }) => id), commissions: contractIds },
    campaigns: campaigns.map(({ id }) => id),
  };
  const { client, segments, pixel_config } = input;
  return [
    entry("client.onboarded", entityOf(client_id), { ...client, segments, pixel_config, made }),
    ...partners.map(({ id, made: fresh }) => {
      if (fresh !== null) return entry("partner.created", partnerEntity(id), { ...fresh, client_ids: [client_id] });
      const { client_ids } = known.get(id)!;
      return entry("partner.updated", partnerEntity(id), { client_ids: [...client_ids, client_id] }, { client_ids });
    }),
    ...contractIds.map((id, n) => {
      const partner_id = partners.find((one) => one.partner_id === contracts[n]!.partner_id)!.id;
      return entry("contract.created", `contract:${id}`, { ...contracts[n], partner_id, client_id });
    }),
    ...campaigns.map(({ id, input: campaign, status, links }) =>
      entry(status === "active" ? "campaign.launched" : "campaign.created", campaignEntity(id), {
        ...{ ...campaign, status, partners: links.map(({ partner_id }) => partner_id) },
      }),
    ),
    entry("token.created", `token:${token_id}`, { kind: "ingest", client_id }),
    ...invitations.map(({ invitation_id, partner_id, expires_at }) =>
      entry("invitation.created", `invitation:${invitation_id}`, { kind: "partner", partner_id, expires_at }),
    ),
  ];
};

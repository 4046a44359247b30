// Makes a client with segments, partners, contracts, campaigns and pixel in one transaction.
import { newClientSecret, saveClientSecretWithin } from "../../access/secrets/client-secrets.ts";
import { createTokenWithin } from "../../access/tokens/tokens.ts";
import type { Work } from "../../base/work.ts";
import { followLaunch } from "../campaigns/follow-launch.ts";
import { PARTNER_CONFLICTS } from "../partners/partner-fields.ts";
import { patched } from "../pixel/change.ts";
import { readPixelConfig, savePixelConfig } from "../pixel/pixel-config.ts";
import { changeReference } from "../reference/change.ts";
import { lockReference } from "../reference/open-change.ts";
import { CLIENT_CONFLICTS } from "./create.ts";
import { entriesOf } from "./onboarding/audit.ts";
import type { OnboardingInput } from "./onboarding/input.ts";
import { type Inviter, invitePartners, knownPartners } from "./onboarding/partners.ts";
import { changesOf, type Plan, placeIn, planOf, warningsIn } from "./onboarding/plan.ts";
import { type MadeCampaign, type OnboardingResult, resultOf } from "./onboarding/result.ts";

export interface OnboardedClient extends OnboardingResult {
  /** Token and secret are shown only once. */
  readonly ingest_token: string;
  readonly hmac_secret: string;
  /** Warnings about settings that are saved although they may be a mistake. */
  readonly warnings: ReturnType<typeof warningsIn>;
}
export interface Onboarding {
  readonly input: OnboardingInput;
  readonly inviter: Inviter;
  /** The label of the client's first ingest token. */
  readonly token_label: string;
}

/**
 * Throws RefusalError: the refusals of `planOf` and `knownPartners`, `slug_taken`,
 * `referral_code_taken`, and refusals of wrong records.
 */
export const onboardClient = async (
  work: Work,
  { input, inviter, token_label }: Onboarding,
): Promise<OnboardedClient> => {
  const { tx, now } = work;
  const plan = planOf(input, now);
  await lockReference(tx);
  const known = await knownPartners(work, plan);
  const conflicts = { ...CLIENT_CONFLICTS, ...PARTNER_CONFLICTS };
  const result = resultOf(
    plan,
    await changeReference(work, changesOf(plan, known), { conflicts, placeOf: placeIn(plan) }),
  );
  const { client_id, client_name: name, change_id, campaigns } = result;
  await savePixel(work, plan, client_id);
  const hmac_secret = newClientSecret();
  await saveClientSecretWithin(tx, client_id, hmac_secret, inviter.keyring);
  const { token_id, token } = await createTokenWithin(tx, { kind: "ingest", client_id, label: token_label });
  const invitations = await invitePartners(work, result, inviter);
  const launched = campaigns.filter(({ status }) => status === "active").map(launchOf);
  await followLaunch(work, { client_id, name, change_id }, launched);
  await work.audit(...entriesOf(plan, result, { known, token_id, invitations }));
  return { ...result, ingest_token: token, hmac_secret, warnings: warningsIn(plan) };
};

/** Saves the pixel settings that are not columns of the client. */
const savePixel = async ({ tx }: Work, { input }: Plan, clientId: number): Promise<void> => {
  const { jurisdiction: _, consent_default: __, ...patch } = input.pixel_config;
  if (Object.keys(patch).length === 0) return;
  const config = (await readPixelConfig(tx, clientId, [clientId]))!;
  await savePixelConfig(tx, clientId, patched(config, patch, "/pixel_config"));
};

const launchOf = ({ id, name, input, links }: MadeCampaign) => ({
  ...{ campaign_id: id, version: 1, campaign: name, links },
  ...{ starts_on: input.starts_on ?? null, ends_on: input.ends_on ?? null },
  partner_ids: links.map(({ partner_id }) => partner_id),
});

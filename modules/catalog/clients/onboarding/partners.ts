// The partners of an onboarding: checks existing ones, and invites new ones.
import type { Keyring } from "../../../../infra/runtime/keyring.ts";
import { createFirstInvitations } from "../../../access/invitations/invitations.ts";
import { archived } from "../../../access/standing.ts";
import { addressesInUse, asUsers, type Locale } from "../../../access/users/users.ts";
import { queueMails } from "../../../base/mails/mails.ts";
import { announce } from "../../../base/outbox/outbox.ts";
import { invalid } from "../../../base/refusal.ts";
import type { Work } from "../../../base/work.ts";
import { refuseInactive } from "../../partners/named-partners.ts";
import { refuseAmong, refuseTaken } from "../../partners/partner-fields.ts";
import { type PartnerState, partnerStates } from "../../partners/partner-reads.ts";
import type { Plan } from "./plan.ts";
import type { OnboardingResult } from "./result.ts";

/**
 * Returns the existing partners. Throws RefusalError: invalid `unknown`, `partner_archived`,
 * `partner_inactive` for a partner that may not get a link, and `email_in_use`.
 */
export const knownPartners = async (
  { tx, scope }: Work,
  { partners, campaigns }: Plan,
): Promise<ReadonlyMap<number, PartnerState>> => {
  const ids = partners.flatMap(({ partner_id, made }) => (made === null ? partner_id : []));
  const known = await partnerStates(tx, ids, scope.clients);
  for (const { partner_id, made, place } of partners) {
    if (made !== null) continue;
    const path = `${place}/id`;
    const state = known.get(partner_id);
    if (state === undefined) throw invalid(path, "unknown", `no partner has the id ${partner_id}`);
    if (state.status === "archived") throw archived("partner", { path });
  }
  const fresh = partners.flatMap(({ made, place }) => (made === null ? [] : { ...made, place }));
  const guests = fresh.filter(({ status }) => status === "invited");
  const emails = guests.map(({ email }) => email);
  const users = await asUsers(tx, () => addressesInUse(tx, emails));
  refuseAmong(users, guests);
  await refuseTaken(tx, fresh);
  const statuses = new Map(
    partners.map(({ partner_id, made }) => [partner_id, made?.status ?? known.get(partner_id)!.status]),
  );
  const linked = campaigns.flatMap(({ links }) => links.map(({ partner_id: id, place: path }) => ({ id, path })));
  refuseInactive(statuses, linked);
  return known;
};

export interface Inviter {
  readonly name: string;
  readonly locale: Locale;
  readonly keyring: Keyring;
}
export interface PartnerInvitation {
  readonly invitation_id: number;
  readonly partner_id: number;
  readonly expires_at: number;
}

/** Invites the new partners that ask for it, by mail, and announces them in the log. */
export const invitePartners = async (
  { tx, act }: Work,
  { client_id, client_name, change_id, partners }: OnboardingResult,
  { name: inviter, locale, keyring }: Inviter,
): Promise<readonly PartnerInvitation[]> => {
  const guests = partners.flatMap(({ id, made }) => (made?.status === "invited" ? { id, ...made } : []));
  if (guests.length === 0) return [];
  const wanted = guests.map(({ id, email }) => ({
    ...{ kind: "partner" as const, email: email.toLowerCase(), partner_id: id },
    ...{ client_id: null, client_ids: null, locale, invited_by: act.actor },
  }));
  const made = await createFirstInvitations(tx, wanted, keyring);
  const mails = made.map(({ invitation_id, expires_at }, n) => ({
    ...{ happening: `invitation:${invitation_id}`, recipient: wanted[n]!.email, locale },
    template: "invitation_partner" as const,
    facts: { inviter, name: guests[n]!.name, clients: client_name, invitation_id, expires_at },
  }));
  await asUsers(tx, () => queueMails(tx, mails));
  const announced = guests.map(({ id }) => ({
    topic: "domain.changes" as const,
    client_id,
    record: {
      ...{ client_id, entity: `partner:${id}`, type: "partner.invited", version: 1, change_id },
      data: JSON.stringify({ partner_id: id }),
    },
  }));
  await announce(tx, announced);
  return made.map((one, n) => ({ ...one, partner_id: guests[n]!.id }));
};

// Invites a person to a partner or a client. The mail with the token is sent after the commit.
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { queueMail } from "../../base/mails/mails.ts";
import { conflict } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { checkOwner } from "../standing.ts";
import { asUsers, emailInUse, findByEmail, type User } from "../users/users.ts";
import { entityOfInvitation, type InvitationKind, insertInvitation } from "./invitations.ts";

export interface InvitationInput {
  readonly kind: InvitationKind;
  readonly email: string;
  /** The partner, for an invitation of kind partner; otherwise null. */
  readonly partner_id: number | null;
  /** The client, for an invitation of kind client; otherwise null. */
  readonly client_id: number | null;
  /** Revokes a pending invitation of the same address first. */
  readonly resend: boolean;
  /** The inviting user's name, and the language of the mail. */
  readonly inviter: Pick<User, "name" | "locale">;
}

/**
 * Returns the id of the invitation. Throws RefusalError: missing, conflict `client_archived`,
 * `partner_archived`, `email_in_use`, `invitation_pending`, forbidden `shared_partner`.
 */
export const createInvitation = async (
  work: Work,
  keyring: Keyring,
  { resend, inviter, ...input }: InvitationInput,
): Promise<number> => {
  const { tx, audit, act } = work;
  const { kind, partner_id, client_id } = input;
  const email = input.email.toLowerCase();
  const { names, client_ids } = await checkOwner(work, input);
  if ((await asUsers(tx, () => findByEmail(tx, email))) !== undefined) throw emailInUse("");
  const { locale, name } = inviter;
  const wanted = { kind, email, partner_id, client_id, client_ids, locale, invited_by: act.actor };
  const made = await insertInvitation(tx, wanted, keyring, resend);
  if ("pending" in made) {
    const details = { invitation_id: `inv_${made.pending}` };
    throw conflict("invitation_pending", "this address is invited already: wait, or send resend", { details });
  }
  const { invitation_id: id, expires_at, revoked } = made;
  const facts = { inviter: name, ...names, invitation_id: id, expires_at };
  const template = `invitation_${kind}` as const;
  await asUsers(tx, () =>
    queueMail(tx, { happening: entityOfInvitation(id), recipient: email, template, locale, facts }),
  );
  const ended = revoked.map((one) => {
    return { action: "invitation.revoked", client_id, entity: entityOfInvitation(one) };
  });
  const action = revoked.length > 0 ? "invitation.resent" : "invitation.created";
  const after = { kind, email, partner_id, client_id, expires_at };
  await audit(...ended, { action, client_id, entity: entityOfInvitation(id), after });
  return id;
};

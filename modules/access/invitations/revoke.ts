// Revokes a pending invitation.
import { conflict, missing } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { checkWholePartner } from "../standing.ts";
import { hashOfToken, invitationToken } from "./invitation-token.ts";
import { entityOfInvitation, type InvitationFilter, readInvitation, revokeWithin } from "./invitations.ts";

/** Throws RefusalError: missing, conflict `invalid_transition`, forbidden `shared_partner`. */
export const revokeInvitation = async (work: Work, filter: InvitationFilter): Promise<void> => {
  const { tx, scope, audit } = work;
  const found = await readInvitation(tx, filter, scope, ["id", "status", "client_id", "partner_id"]);
  if (found === undefined || found.status === "revoked") throw missing();
  if (found.partner_id != null) await checkWholePartner(work, found.partner_id);
  const id = Number((found.id as string).slice("inv_".length));
  if (!(await revokeWithin(tx, id))) throw conflict("invalid_transition", "this invitation is not pending");
  await audit({ action: "invitation.revoked", client_id: found.client_id ?? null, entity: entityOfInvitation(id) });
};

/** Parses an id or a token. Throws RefusalError: missing if the text is neither. */
export const namedBy = (text: string): Pick<InvitationFilter, "invitation_id" | "sha256"> => {
  const [, id] = /^inv_([1-9]\d{0,8})$/.exec(text) ?? [];
  if (id !== undefined) return { invitation_id: Number(id) };
  if (!invitationToken.test(text)) throw missing();
  return { sha256: hashOfToken(text) };
};

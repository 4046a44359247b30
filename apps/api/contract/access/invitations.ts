// The contracts of invitations of partners, and of people of a client.
import { z } from "zod";
import { invitationStates } from "../../../../modules/access/invitations/invitations.ts";
import { contract, listContract } from "../contract.ts";
import { choice, id, idText, maskedEmail, time, words } from "../fields.ts";

const status = choice(invitationStates);
const email = z
  .email()
  .regex(/^.{1,64}@/, "at most 64 characters before the @")
  .max(254);
const filters = { status: status.optional(), email: z.string().min(1).max(254).optional() };
const sorts = ["-created_at", "created_at", "expires_at", "-expires_at"];

const invitation = {
  id: z.string(),
  email: z.string(),
  status,
  invited_by: z.string(),
  created_at: time,
  expires_at: time,
  accepted_at: time.nullable(),
  updated_at: time,
};
const ofPartner = z.object({ ...invitation, partner_id: id, role: z.literal("partner") });
const ofClient = z.object({ ...invitation, client_id: id, role: z.literal("client_user") });
const hidden = { email: maskedEmail, invited_by: maskedEmail };
const conflicts = ["invitation_pending", "email_in_use"];
const resend = z.boolean().default(false).describe("revokes the pending one and mails a new one");

export const listInvitations = listContract({
  route: "GET /api/invitations",
  summary: "Invitations of partners; never their tokens.",
  filters: { ...filters, partner_id: idText.optional() },
  rows: { admin: ofPartner, viewer: ofPartner.extend(hidden) },
  sorts,
  // A filter by address would reveal whether the address is there.
  without: { viewer: ["email"] },
});
export const listClientInvitations = listContract({
  route: "GET /api/client-invitations",
  summary: "Invitations of the people of clients; never their tokens.",
  filters: { ...filters, client_id: idText.optional() },
  rows: { admin: ofClient, viewer: ofClient.extend(hidden) },
  sorts,
  without: { viewer: ["email"] },
});

export const createInvitation = contract({
  route: "POST /api/invitations",
  summary: "Invites a person to work as this partner: a mail with a link that is good for 7 days, once.",
  body: z.strictObject({ email, partner_id: id, resend }),
  answers: ofPartner,
  status: 201,
  isIdempotent: true,
  conflicts: [...conflicts, "partner_archived"],
  needsWholePartner: "always",
});
export const createClientInvitation = contract({
  route: "POST /api/client-invitations",
  summary: "Invites a person to the portal of this client: a mail with a link that is good for 7 days, once.",
  body: z.strictObject({ email, client_id: id, resend }),
  answers: ofClient,
  status: 201,
  isIdempotent: true,
  conflicts: [...conflicts, "client_archived"],
});

const token = z.string().min(1).max(200);
const verified = z.object({
  valid: z.boolean(),
  kind: choice(["partner", "client"]),
  status,
  email: maskedEmail,
  name: z.string().describe("of the partner or the client"),
  expires_at: time,
});
export const verifyInvitation = contract({
  route: "GET /api/invitations/verify",
  summary: "What the token of an invitation leads to; writes nothing.",
  query: z.strictObject({ token }),
  answers: verified,
});
export const verifyClientInvitation = contract({
  route: "GET /api/client-invitations/verify",
  summary: "What the token of an invitation leads to; writes nothing.",
  query: z.strictObject({ token }),
  answers: verified,
});

const acceptance = z.strictObject({ token, name: words(200) });
const accepted = z.object({
  status: z.literal("accepted"),
  kind: choice(["partner", "client"]),
  email: z.string(),
  login_url: z.string().nullable().describe("of the portal, where there is one"),
});
const ends = [
  ...["invitation_used", "invitation_revoked", "invitation_expired", "email_in_use"],
  ...["partner_archived", "client_archived"],
];
export const acceptInvitation = contract({
  route: "POST /api/invitations/accept",
  summary: "Accepts an invitation, once: the next login that shows its address as verified comes in.",
  body: acceptance,
  answers: accepted,
  conflicts: ends,
});
export const acceptClientInvitation = contract({
  route: "POST /api/client-invitations/accept",
  summary: "Accepts an invitation, once: the next login that shows its address as verified comes in.",
  body: acceptance,
  answers: accepted,
  conflicts: ends,
});

const invitationId = z.codec(z.string().regex(/^inv_[1-9]\d{0,9}$/), id, {
  decode: (text) => Number(text.slice("inv_".length)),
  encode: (number) => `inv_${number}`,
});
export const revokeInvitation = contract({
  route: "DELETE /api/invitations/:id",
  summary: "Revokes a pending invitation.",
  params: z.strictObject({ id: invitationId }),
  needsWholePartner: "always",
  conflicts: ["invalid_transition"],
});
export const revokeClientInvitation = contract({
  route: "DELETE /api/client-invitations/:token",
  summary: "Revokes a pending invitation, by its id or its token.",
  params: z.strictObject({ token: z.string().min(1).max(200) }),
  conflicts: ["invalid_transition"],
});

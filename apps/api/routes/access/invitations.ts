// The routes of invitations, the same for both kinds.
import { Problem } from "../../../../infra/http/problem.ts";
import {
  acceptInvitation,
  InvitationRefused,
  type Verified,
  verifyInvitation,
} from "../../../../modules/access/invitations/accepting.ts";
import { hashOfToken, invitationToken } from "../../../../modules/access/invitations/invitation-token.ts";
import {
  createInvitation,
  type InvitationFilter,
  type InvitationKind,
  invitationRows,
  readInvitation,
  revokeInvitation,
} from "../../../../modules/access/invitations/invitations.ts";
import { partnerStanding } from "../../../../modules/access/invitations/partner-standing.ts";
import { asUsers, findByEmail, UserRefused } from "../../../../modules/access/users/users.ts";
import { queueMail } from "../../../../modules/base/mails/mails.ts";
import { readClient } from "../../../../modules/catalog/clients/client-reads.ts";
import { activatePartner } from "../../../../modules/catalog/partners/activate.ts";
import * as contracts from "../../contract/access/invitations.ts";
import { fault, notFound } from "../../request/accept.ts";
import { away } from "../../request/arrived.ts";
import { type ApiPorts, type Ask, type Reply, type Route, route, type Work } from "../../route.ts";

type Ports = Pick<ApiPorts, "pool" | "keyring" | "portal">;

export const routes = (ports: Ports): readonly Route[] => [
  route(contracts.listInvitations, ({ list, query }) => list(invitationRows({ kind: "partner", ...query }))),
  route(contracts.listClientInvitations, ({ list, query }) => list(invitationRows({ kind: "client", ...query }))),

  route(contracts.createInvitation, (ask) => {
    const { email, partner_id, resend } = ask.body;
    return created(ports, ask, { kind: "partner", email, partner_id, client_id: null, resend });
  }),
  route(contracts.createClientInvitation, (ask) => {
    const { email, client_id, resend } = ask.body;
    return created(ports, ask, { kind: "client", email, partner_id: null, client_id, resend });
  }),

  route(contracts.verifyInvitation, ({ query }) => verified(ports, "partner", query.token)),
  route(contracts.verifyClientInvitation, ({ query }) => verified(ports, "client", query.token)),
  route(contracts.acceptInvitation, (ask) => accepted(ports, ask, { kind: "partner", ...ask.body })),
  route(contracts.acceptClientInvitation, (ask) => accepted(ports, ask, { kind: "client", ...ask.body })),

  route(contracts.revokeInvitation, (ask) => revoked(ask, { kind: "partner", invitation_id: ask.params.id })),
  route(contracts.revokeClientInvitation, (ask) => revoked(ask, { kind: "client", ...named(ask.params.token) })),
];

interface Wanted {
  readonly kind: InvitationKind;
  readonly email: string;
  readonly partner_id: number | null;
  readonly client_id: number | null;
  readonly resend: boolean;
}

const created = ({ keyring }: Ports, { write, user, fields }: Ask, { resend, ...given }: Wanted): Promise<Reply> =>
  write(async (work) => {
    const { tx, scope, audit } = work;
    const wanted = { ...given, email: given.email.toLowerCase(), locale: user.locale, invited_by: user.email };
    const { kind, email, partner_id, client_id } = wanted;
    const target = await targetOf(work, wanted);
    if ((await asUsers(tx, () => findByEmail(tx, email))) !== undefined)
      throw conflict("email_in_use", "there is a user of this address already");
    const made = await createInvitation(tx, wanted, keyring, resend);
    if ("pending" in made)
      throw new Problem("conflict", "this address is invited already: wait, or send resend", {
        code: "invitation_pending",
        members: { invitation_id: `inv_${made.pending}` },
      });
    const { invitation_id: id, expires_at } = made;
    await asUsers(tx, () =>
      queueMail(tx, {
        happening: entity(id),
        recipient: email,
        template: `invitation_${kind}`,
        locale: user.locale,
        facts: { inviter: user.name, ...target, invitation_id: id, expires_at },
      }),
    );
    for (const old of made.revoked) await audit({ action: "invitation.revoked", client_id, entity: entity(old) });
    const action = made.revoked.length > 0 ? "invitation.resent" : "invitation.created";
    await audit({ action, client_id, entity: entity(id), after: { kind, email, partner_id, client_id, expires_at } });
    const body = await readInvitation(tx, { kind, invitation_id: id }, scope, fields);
    return { body, headers: { Location: `/api/${kind === "client" ? "client-" : ""}invitations/inv_${id}` } };
  });

/** Throws Problem 404 for what the caller does not see, 409 for what is archived. */
const targetOf = async ({ tx, scope }: Work, { partner_id, client_id }: Pick<Wanted, "partner_id" | "client_id">) => {
  if (client_id !== null) {
    const client = await readClient(tx, client_id, scope.clients, ["name"]);
    if (client === undefined) throw notFound();
    if (client.state.status === "archived") throw conflict("client_archived", "this client is archived");
    return { name: client.shown.name as string };
  }
  const partner = await partnerStanding(tx, partner_id!, scope.clients);
  if (partner === undefined) throw notFound();
  if (partner.status === "archived") throw conflict("partner_archived", "this partner is archived");
  return { name: partner.name, clients: partner.clients };
};

const verified = async ({ pool }: Ports, kind: InvitationKind, token: string): Promise<Reply> => {
  const found: Verified = await verifyInvitation(pool, kind, token).catch(refusedFor(kind));
  return { body: { ...found, valid: found.status === "pending" } };
};

const accepted = async (
  { pool, portal }: Ports,
  { sender }: Ask,
  acceptance: Parameters<typeof acceptInvitation>[2],
): Promise<Reply> => {
  const { kind } = acceptance;
  const { email } = await acceptInvitation(pool, activatePartner, acceptance, sender).catch(refusedFor(kind));
  return { body: { status: "accepted", kind, email, login_url: portal ?? null } };
};

const revoked = ({ write }: Ask, filter: InvitationFilter): Promise<Reply> =>
  write(async ({ tx, scope, audit }) => {
    const found = await readInvitation(tx, filter, scope, ["id", "status", "client_id"]);
    if (found === undefined || found.status === "revoked") throw notFound();
    const id = Number((found.id as string).slice("inv_".length));
    if (!(await revokeInvitation(tx, id))) throw conflict("invalid_transition", "this invitation is not pending");
    await audit({ action: "invitation.revoked", client_id: found.client_id ?? null, entity: entity(id) });
    return {};
  });

/** By id or token; what is neither is an unknown one. */
const named = (text: string): Pick<InvitationFilter, "invitation_id" | "sha256"> => {
  const [, id] = /^inv_([1-9]\d{0,8})$/.exec(text) ?? [];
  if (id !== undefined) return { invitation_id: Number(id) };
  if (!invitationToken.test(text)) throw notFound();
  return { sha256: hashOfToken(text) };
};

const entity = (invitationId: number): string => `invitation:${invitationId}`;
const conflict = (code: string, detail: string): Problem => new Problem("conflict", detail, { code });

const refusedFor =
  (kind: InvitationKind) =>
  (error: unknown): never => {
    if (error instanceof UserRefused) {
      const { code, field, message } = error;
      throw code === "email_in_use" ? conflict(code, message) : fault(`/${field}`, code, message);
    }
    if (!(error instanceof InvitationRefused)) return away(error);
    const { reason } = error;
    if (reason === "unknown") throw notFound();
    if (reason === "archived") throw conflict(`${kind}_archived`, `this ${kind} is archived`);
    throw conflict(`invitation_${reason === "accepted" ? "used" : reason}`, `this invitation is ${reason}`);
  };

// The routes of invitations of partners, and of people of a client.
import { acceptInvitation, verifyInvitation } from "../../../../modules/access/invitations/accept.ts";
import { createInvitation, type InvitationInput } from "../../../../modules/access/invitations/create.ts";
import {
  type InvitationKind,
  invitationRows,
  readInvitation,
} from "../../../../modules/access/invitations/invitations.ts";
import { namedBy, revokeInvitation } from "../../../../modules/access/invitations/revoke.ts";
import { activatePartner } from "../../../../modules/catalog/partners/activate.ts";
import * as contracts from "../../contract/access/invitations.ts";
import { away } from "../../request/checked-request.ts";
import { type ApiPorts, type Ask, type Reply, type Route, route } from "../../route.ts";

type Ports = Pick<ApiPorts, "pool" | "keyring" | "portal">;

export const routes = (ports: Ports): readonly Route[] => [
  route(contracts.listInvitations, ({ list, query }) => list(invitationRows({ kind: "partner", ...query }))),
  route(contracts.listClientInvitations, ({ list, query }) => list(invitationRows({ kind: "client", ...query }))),

  route(contracts.createInvitation, (ask) => created(ports, ask, { kind: "partner", client_id: null, ...ask.body })),
  route(contracts.createClientInvitation, (ask) =>
    created(ports, ask, { kind: "client", partner_id: null, ...ask.body }),
  ),

  route(contracts.verifyInvitation, ({ query }) => verified(ports, "partner", query.token)),
  route(contracts.verifyClientInvitation, ({ query }) => verified(ports, "client", query.token)),
  route(contracts.acceptInvitation, (ask) => accepted(ports, ask, { kind: "partner", ...ask.body })),
  route(contracts.acceptClientInvitation, (ask) => accepted(ports, ask, { kind: "client", ...ask.body })),

  route(contracts.revokeInvitation, ({ write, params }) =>
    write((work) => revokeInvitation(work, { kind: "partner", invitation_id: params.id })),
  ),
  route(contracts.revokeClientInvitation, ({ write, params }) =>
    write((work) => revokeInvitation(work, { kind: "client", ...namedBy(params.token) })),
  ),
];

const created = (
  { keyring }: Ports,
  { write, user, fields }: Ask,
  input: Omit<InvitationInput, "inviter">,
): Promise<Reply> =>
  write(
    (work) => createInvitation(work, keyring, { ...input, inviter: user }),
    async (invitation_id, { tx, scope }) => ({
      body: await readInvitation(tx, { kind: input.kind, invitation_id }, scope, fields),
      headers: { Location: `/api/${input.kind === "client" ? "client-" : ""}invitations/inv_${invitation_id}` },
    }),
  );

const verified = async ({ pool }: Ports, kind: InvitationKind, token: string): Promise<Reply> => {
  const found = await verifyInvitation(pool, kind, token).catch(away);
  return { body: { ...found, valid: found.status === "pending" } };
};

const accepted = async (
  { pool, portal }: Ports,
  { sender }: Ask,
  acceptance: Parameters<typeof acceptInvitation>[2],
): Promise<Reply> => {
  const { email } = await acceptInvitation(pool, activatePartner, acceptance, sender).catch(away);
  return { body: { status: "accepted", kind: acceptance.kind, email, login_url: portal ?? null } };
};

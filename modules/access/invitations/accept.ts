// Shows an invitation to the holder of its token, and accepts it once.
import { randomUUID } from "node:crypto";
import type { Pool, PoolClient } from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import type { Act } from "../../base/audit/audit.ts";
import { queueMail } from "../../base/mails/mails.ts";
import { conflict, missing, RefusalError } from "../../base/refusal.ts";
import { runWork, type Work } from "../../base/work.ts";
import { archived } from "../standing.ts";
import { insertUser } from "../users/create.ts";
import { asUsers, type Locale, type Role } from "../users/users.ts";
import { hashOfToken, invitationToken, tokenOfSeed } from "./invitation-token.ts";
import { type InvitationKind, type InvitationState, stateOf } from "./invitations.ts";

interface InvitationRow {
  readonly invitation_id: number;
  readonly kind: InvitationKind;
  readonly email: string;
  readonly partner_id: number | null;
  readonly client_id: number | null;
  readonly client_ids: readonly number[] | null;
  readonly locale: Locale;
  readonly invited_by: string;
  readonly expires_at: number;
  readonly status: InvitationState;
}
/** The partner or the client that an invitation is for. */
interface Target {
  readonly name: string;
  readonly status: string;
  readonly client_ids: readonly number[];
}
const found = sql`i.invitation_id, i.kind, i.email, i.partner_id, i.client_id, i.client_ids, i.locale,
  i.invited_by, i.expires_at, ${stateOf} as status`;

/** The refusal of an invitation that cannot be accepted any more. */
const ended = (kind: InvitationKind, state: Exclude<InvitationState, "pending"> | "archived"): RefusalError => {
  if (state === "archived") return archived(kind);
  return conflict(`invitation_${state === "accepted" ? "used" : state}`, `this invitation is ${state}`);
};

/** Throws RefusalError: missing if no invitation of this kind has the token. */
const find = async (tx: Pick<PoolClient, "query">, kind: InvitationKind, token: string): Promise<InvitationRow> => {
  const { rows } = await tx.query<InvitationRow>(sql`
    select ${found} from invitations i where sha256 = ${hashOfToken(token)} and kind = ${kind}`);
  if (rows[0] === undefined || !invitationToken.test(token)) throw missing();
  return rows[0];
};

/** The tenant is not known yet, so the query runs in the role that reads all tenants. */
const targetOf = async (tx: PoolClient, { partner_id, client_id }: InvitationRow): Promise<Target> => {
  await tx.query("set local role tributary_reference");
  const { rows } = await tx.query<Target>(
    client_id !== null
      ? sql`select name, status, array[client_id] as client_ids from clients where client_id = ${client_id}
          order by version desc limit 1`
      : sql`select name, status, client_ids from partners where partner_id = ${partner_id}
          order by version desc limit 1`,
  );
  await tx.query("set local role none");
  return rows[0]!;
};

export interface InvitationView extends Pick<InvitationRow, "kind" | "email" | "expires_at" | "status"> {
  readonly name: string;
}
/** Returns the invitation of a token without writing anything. Throws RefusalError: missing. */
export const verifyInvitation = (pool: Pool, kind: InvitationKind, token: string): Promise<InvitationView> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { email, expires_at, status, ...rest } = await asUsers(tx, () => find(tx, kind, token));
      const { name } = await targetOf(tx, { email, expires_at, status, ...rest });
      return { kind, email, name, expires_at, status };
    },
    { isReadOnly: true },
  );

export interface Acceptance {
  readonly kind: InvitationKind;
  readonly token: string;
  /** The person's name. */
  readonly name: string;
}
/** Makes an invited partner active (modules/catalog/partners/activate.ts). */
export type ActivatePartner = (work: Work, partnerId: number) => Promise<void>;

/**
 * Creates the user of the invitation and marks the invitation as accepted. Of concurrent calls one
 * succeeds. An invited partner becomes active. Throws RefusalError: missing, invalid `bad_user`,
 * conflict `invitation_used`, `invitation_revoked`, `invitation_expired`, `partner_archived`,
 * `client_archived`, and `email_in_use` if a user has the address by now.
 */
export const acceptInvitation = (
  pool: Pool,
  activate: ActivatePartner,
  { kind, token, name }: Acceptance,
  sender: Pick<Act, "request_id" | "ip">,
): Promise<{ readonly email: string }> =>
  transaction(pool, null, async (tx) => {
    const invitation = await asUsers(tx, () => take(tx, kind, token));
    const target = await targetOf(tx, invitation);
    if (target.status === "archived") throw ended(kind, "archived");
    const { email } = invitation;
    const role: Role = kind === "partner" ? "partner" : "client_user";
    const scope = { clients: target.client_ids, isAll: false };
    const parts = { tx, scope, act: { actor: email, role, ...sender }, idOf: () => randomUUID() };
    return runWork(
      parts,
      (work) => accept(work, activate, { invitation, target, name, role }),
      () => ({ email }),
    );
  });

interface Accepting {
  readonly invitation: InvitationRow;
  readonly target: Target;
  /** The person's name. */
  readonly name: string;
  readonly role: Role;
}
const accept = async (
  work: Work,
  activate: ActivatePartner,
  { invitation, target, name, role }: Accepting,
): Promise<void> => {
  const { tx } = work;
  const { invitation_id: id, email, partner_id, client_id, locale } = invitation;
  const client_ids = client_id === null ? (invitation.client_ids ?? []) : [client_id];
  const wanted = { email, name, role, locale, partner_id, client_ids };
  // The tenant existed when the invitation was made, and tenants are never removed.
  const known = { client: () => true, partner: () => true };
  const user = await asUsers(tx, async () => {
    const made = await insertUser(tx, wanted, known).catch(ofInvitation);
    const inviter = await localeOf(tx, invitation.invited_by);
    await queueMail(tx, {
      happening: `invitation-accepted:${id}`,
      recipient: invitation.invited_by,
      template: "invitation_accepted",
      locale: inviter ?? locale,
      facts: { inviter: made.name, name: target.name },
    });
    return made;
  });
  await tx.query(sql`select set_config('app.clients', ${target.client_ids.join(",")}, true)`);
  if (target.status === "invited") await activate(work, partner_id!);
  const after = { user_id: user.user_id, role, partner_id, client_id };
  await work.audit({ action: "invitation.accepted", client_id, entity: `invitation:${id}`, after });
};

/** Clears the path of a refused address, which comes from the invitation and not from the input. */
const ofInvitation = (error: unknown): never => {
  if (!(error instanceof RefusalError)) throw error;
  throw new RefusalError(error.refusals.map((one) => (one.path === "/email" ? { ...one, path: "" } : one)));
};

/** The update is conditional, so of concurrent calls only one finds the invitation pending. */
const take = async (tx: Pick<PoolClient, "query">, kind: InvitationKind, token: string): Promise<InvitationRow> => {
  const invitation = await find(tx, kind, token);
  const { rowCount } = await tx.query(sql`
    update invitations i set accepted_at = clock_timestamp()
    where invitation_id = ${invitation.invitation_id} and ${stateOf} = 'pending'`);
  if (rowCount === 1) return invitation;
  const { status } = await find(tx, kind, token);
  throw ended(kind, status === "pending" ? "accepted" : status);
};

const localeOf = async (tx: Pick<PoolClient, "query">, email: string): Promise<Locale | undefined> =>
  (
    await tx.query<{ locale: Locale }>(sql`
      select locale from users where email = ${email} order by removed_at is null desc, user_id desc limit 1`)
  ).rows[0]?.locale;

/** Returns the token of a pending invitation for its mail. Runs in the role tributary_tokens. */
export const tokenForMail = async (
  tx: Pick<PoolClient, "query">,
  invitationId: number,
  keyring: Keyring,
): Promise<string | undefined> => {
  const { rows } = await tx.query<{ seed: string; sha256: Buffer }>(sql`
    select seed, sha256 from invitations i where invitation_id = ${invitationId} and ${stateOf} = 'pending'`);
  return rows[0] && tokenOfSeed(keyring, rows[0].seed, rows[0].sha256);
};

// Invitations of partners and clients: creates, reads and revokes them. An address has at most one
// pending invitation to the same partner or client.
import type { PoolClient } from "pg";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import type { RowsQuery } from "../../../infra/postgres/rows.ts";
import { type Sql, sql } from "../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import type { Scope } from "../../base/work.ts";
import { rowInScope } from "../scope.ts";
import { asUsers, type Locale } from "../users/users.ts";
import { newInvitationToken } from "./invitation-token.ts";

export type InvitationKind = "partner" | "client";
export const invitationStates = ["pending", "accepted", "revoked", "expired"] as const;
export type InvitationState = (typeof invitationStates)[number];

const DAYS = 7;
/** The state of an invitation; the query must name its table `i`. */
export const stateOf: Sql = sql`case when i.accepted_at is not null then 'accepted'
  when i.revoked_at is not null then 'revoked' when i.expires_at <= clock_timestamp() then 'expired'
  else 'pending' end`;

export interface InvitationFilter {
  readonly kind: InvitationKind;
  readonly invitation_id?: number | undefined;
  readonly sha256?: Buffer | undefined;
  readonly status?: InvitationState | undefined;
  readonly partner_id?: number | undefined;
  readonly client_id?: number | undefined;
  readonly email?: string | undefined;
}

const given = (conditions: readonly (Sql | false)[]): readonly Sql[] =>
  conditions.filter((condition): condition is Sql => condition !== false);

/** An invitation of a partner is visible through any of the partner's clients in the scope. */
export const invitationRows = (filter: InvitationFilter): RowsQuery => ({
  columns: {
    id: sql`'inv_' || i.invitation_id`,
    email: sql`i.email`,
    partner_id: sql`i.partner_id`,
    client_id: sql`i.client_id`,
    role: sql`case i.kind when 'partner' then 'partner' else 'client_user' end`,
    status: stateOf,
    invited_by: sql`i.invited_by`,
    created_at: sql`i.created_at`,
    expires_at: sql`i.expires_at`,
    accepted_at: sql`i.accepted_at`,
    updated_at: sql`coalesce(i.accepted_at, i.revoked_at, i.created_at)`,
  },
  from: sql`invitations i left join lateral (
    select p.client_ids from partners p where p.partner_id = i.partner_id order by p.version desc limit 1
  ) held on true`,
  tenant: sql`coalesce(i.client_id,
    (select c from unnest(held.client_ids) c where c = any (app_clients()) limit 1), 0)`,
  where: given([
    sql`i.kind = ${filter.kind}`,
    filter.invitation_id !== undefined && sql`i.invitation_id = ${filter.invitation_id}`,
    filter.sha256 !== undefined && sql`i.sha256 = ${filter.sha256}`,
    filter.status !== undefined && sql`${stateOf} = ${filter.status}`,
    filter.partner_id !== undefined && sql`i.partner_id = ${filter.partner_id}`,
    filter.client_id !== undefined && sql`i.client_id = ${filter.client_id}`,
    filter.email !== undefined && sql`i.email = ${filter.email.trim().toLowerCase()}`,
  ]),
  sorts: {
    created_at: { by: sql`i.created_at`, type: "timestamptz" },
    expires_at: { by: sql`i.expires_at`, type: "timestamptz" },
  },
  id: { by: sql`i.invitation_id`, type: "int" },
});

/** Returns the invitation with this id or hash if the scope includes it, otherwise undefined. */
export const readInvitation = (tx: PoolClient, filter: InvitationFilter, scope: Scope, names: readonly string[]) =>
  rowInScope(tx, invitationRows(filter), scope, names);

export interface NewInvitation {
  readonly kind: InvitationKind;
  readonly email: string;
  readonly partner_id: number | null;
  readonly client_id: number | null;
  /** The clients that the user of a partner will see; null: every client of the partner. */
  readonly client_ids: readonly number[] | null;
  readonly locale: Locale;
  readonly invited_by: string;
}
interface NewInvitationRow {
  readonly invitation_id: number;
  readonly expires_at: number;
}
interface CreatedInvitation extends NewInvitationRow {
  /** Ids of the invitations that `resend` revoked. */
  readonly revoked: readonly number[];
}

/**
 * Makes an invitation for 7 days inside the caller's transaction. If the address has a pending one
 * to the same partner or client, returns that id, unless `resend` revokes it first.
 */
export const insertInvitation = (
  tx: PoolClient,
  wanted: NewInvitation,
  keyring: Keyring,
  resend: boolean,
): Promise<CreatedInvitation | { readonly pending: number }> =>
  asUsers(tx, async () => {
    await lockUntilCommit(tx, "tributary.invitations");
    const { kind, email, partner_id, client_id } = wanted;
    const { rows: pending } = await tx.query<{ invitation_id: number }>(sql`
      select invitation_id from invitations i
      where kind = ${kind} and email = ${email} and partner_id is not distinct from ${partner_id}
        and client_id is not distinct from ${client_id} and ${stateOf} = 'pending' order by invitation_id`);
    if (pending[0] !== undefined && !resend) return { pending: pending[0].invitation_id };
    const revoked = pending.map(({ invitation_id }) => invitation_id);
    for (const id of revoked) await revoke(tx, id);
    const [made] = await insertInvitations(tx, [wanted], keyring);
    return { ...made!, revoked };
  });

/**
 * Makes an invitation for 7 days for each new partner of the same transaction, so none can be
 * pending yet. Returns them in the same order.
 */
export const createFirstInvitations = (
  tx: PoolClient,
  wanted: readonly NewInvitation[],
  keyring: Keyring,
): Promise<readonly NewInvitationRow[]> => asUsers(tx, () => insertInvitations(tx, wanted, keyring));

const insertInvitations = async (
  tx: PoolClient,
  wanted: readonly NewInvitation[],
  keyring: Keyring,
): Promise<readonly NewInvitationRow[]> => {
  const rows = wanted.map((one) => {
    const { seed, sha256 } = newInvitationToken(keyring);
    return { ...one, seed, sha256: `\\x${sha256.toString("hex")}` };
  });
  const { rows: made } = await tx.query<NewInvitationRow & { readonly seed: string }>(sql`
    insert into invitations (kind, email, partner_id, client_id, client_ids, locale, seed, sha256, invited_by,
      expires_at)
    select kind, email, partner_id, client_id, client_ids, locale, seed, sha256, invited_by,
      clock_timestamp() + make_interval(days => ${DAYS})
    from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as given (kind text, email text, partner_id int,
      client_id int, client_ids int[], locale text, seed text, sha256 bytea, invited_by text)
    returning invitation_id, expires_at, seed`);
  return rows.map(({ seed }) => {
    const { invitation_id, expires_at } = made.find((one) => one.seed === seed)!;
    return { invitation_id, expires_at };
  });
};

const revoke = async (tx: Pick<PoolClient, "query">, invitationId: number): Promise<boolean> =>
  (
    await tx.query(sql`
      update invitations i set revoked_at = clock_timestamp()
      where invitation_id = ${invitationId} and ${stateOf} = 'pending'`)
  ).rowCount === 1;

/** Revokes an invitation inside the caller's transaction. Returns false if it was not pending. */
export const revokeWithin = (tx: PoolClient, invitationId: number): Promise<boolean> =>
  asUsers(tx, () => revoke(tx, invitationId));

/**
 * Revokes all pending invitations of a client or partner that is archived, inside the caller's
 * transaction. Returns their ids.
 */
export const revokePendingOf = (
  tx: PoolClient,
  of: { readonly client_id: number } | { readonly partner_id: number },
): Promise<readonly number[]> =>
  asUsers(tx, async () => {
    const whose = "client_id" in of ? sql`client_id = ${of.client_id}` : sql`partner_id = ${of.partner_id}`;
    const { rows } = await tx.query<{ invitation_id: number }>(sql`
      update invitations i set revoked_at = clock_timestamp()
      where ${whose} and ${stateOf} = 'pending' returning invitation_id`);
    return rows.map(({ invitation_id }) => invitation_id);
  });

/**
 * Revokes all pending invitations of an address, in the role tributary_tokens. Returns their ids.
 */
export const revokeInvitationsOf = async (tx: Pick<PoolClient, "query">, email: string): Promise<readonly number[]> => {
  const { rows } = await tx.query<{ invitation_id: number }>(sql`
    update invitations i set revoked_at = clock_timestamp()
    where email = ${email} and ${stateOf} = 'pending' returning invitation_id`);
  return rows.map(({ invitation_id }) => invitation_id);
};

/** The name of an invitation in the audit. */
export const entityOfInvitation = (invitationId: number): string => `invitation:${invitationId}`;

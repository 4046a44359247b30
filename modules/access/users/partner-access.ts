// Reads and ends the access of a partner: its users and its upload token. Neither belongs to a
// client, so the queries run in the role that sees users and tokens of all tenants.
import type { PoolClient } from "pg";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

interface PartnerAccess {
  readonly users: readonly { readonly id: number; readonly email: string; readonly name: string }[];
  /** Null if the partner has none. The prefix of an old token is not known. */
  readonly upload_token: { readonly prefix: string | null; readonly last_used_at: UnixMs | null } | null;
}

/**
 * The caller must be allowed to see the partner. Disabled users, and those bound to other clients,
 * are left out.
 */
export const readPartnerAccess = async (
  tx: PoolClient,
  partnerId: number,
  clients: readonly number[],
): Promise<PartnerAccess> => {
  await tx.query("set local role tributary_tokens");
  const { rows: users } = await tx.query<PartnerAccess["users"][number]>(sql`
    select user_id as id, email, name from users where partner_id = ${partnerId} and removed_at is null
      and (client_ids = '{}' or client_ids && ${clients}::int[])
    order by user_id`);
  const { rows: tokens } = await tx.query<NonNullable<PartnerAccess["upload_token"]>>(sql`
    select prefix, last_used_at from tokens
    where kind = 'upload' and partner_id = ${partnerId} and revoked_at is null`);
  await tx.query("set local role none");
  return { users, upload_token: tokens[0] ?? null };
};

/**
 * Revokes the upload token of a partner inside the caller's transaction, which must be short
 * because others wait. Returns the number of revoked tokens.
 */
export const revokeUploadToken = async (tx: PoolClient, partnerId: number): Promise<number> => {
  await lockUntilCommit(tx, "tributary.tokens");
  await tx.query("set local role tributary_tokens");
  const { rowCount } = await tx.query(sql`
    update tokens set revoked_at = clock_timestamp(), revision = nextval('token_revisions')
    where kind = 'upload' and partner_id = ${partnerId} and revoked_at is null`);
  await tx.query("set local role none");
  return rowCount ?? 0;
};

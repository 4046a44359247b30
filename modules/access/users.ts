// Who may use the platform and as what: found by e-mail address on each request, so that a demotion
// acts at once.
import type { Pool } from "pg";
import { sql, transaction } from "../../infra/postgres/sql.ts";

export const roles = ["admin", "client_manager", "partner", "client_user", "viewer"] as const;
export type Role = (typeof roles)[number];

export interface User {
  readonly user_id: number;
  readonly email: string;
  readonly name: string;
  readonly role: Role;
  readonly partner_id: number | null;
  readonly client_ids: readonly number[];
}

/** Asked before any tenant is known; this role sees no tenant's rows. */
const reader = { role: "tributary_tokens" } as const;

export const userOf = (pool: Pool, email: string): Promise<User | undefined> =>
  transaction(
    pool,
    null,
    async (tx) =>
      (
        await tx.query<User>(sql`
          select user_id, email, name, role, partner_id, client_ids from users where email = ${email.toLowerCase()}
            and removed_at is null`)
      ).rows[0],
    { ...reader, isReadOnly: true },
  );

/** Makes the user, or gives an existing one this name, role and tenants. Answers its id. */
export const saveUser = (
  pool: Pool,
  { email, name, role, partner_id, client_ids }: Omit<User, "user_id">,
): Promise<number> =>
  transaction(
    pool,
    null,
    async (tx) =>
      (
        await tx.query<{ user_id: number }>(sql`
          insert into users as kept (email, name, role, partner_id, client_ids)
          values (${email.toLowerCase()}, ${name}, ${role}, ${partner_id}, ${client_ids})
          on conflict (email) where removed_at is null do update set name = excluded.name, role = excluded.role,
            partner_id = excluded.partner_id,
            client_ids = excluded.client_ids, updated_at = clock_timestamp()
          returning user_id`)
      ).rows[0]!.user_id,
    reader,
  );

/** Ends the access of that address at once. False when there is none. */
export const removeUser = (pool: Pool, email: string): Promise<boolean> =>
  transaction(
    pool,
    null,
    async (tx) =>
      (
        await tx.query(
          sql`update users set removed_at = clock_timestamp() where email = ${email.toLowerCase()}
            and removed_at is null`,
        )
      ).rowCount === 1,
    reader,
  );

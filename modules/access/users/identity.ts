// Finds users by the identity that the provider confirms on each request, so that a demotion takes
// effect at once. Binds an identity at the first login, and unbinds it.
import type pg from "pg";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import { type Act, writeAudit } from "../../base/audit/audit.ts";
import { EMAIL } from "./user-rules.ts";
import { addressOf, asUsers, type User, type UserTransaction, userColumns, usersRole, withUsers } from "./users.ts";

/** The claims of a valid token about its owner. */
export interface Identity {
  readonly issuer: string;
  readonly subject: string;
  /** Null unless the issuer says that the address is verified. */
  readonly email: string | null;
}

/**
 * Returns the user of an identity; undefined if the identity is not bound and cannot be. The first
 * login binds it to the user with the same verified address. If that user has another identity
 * already, the login is refused. A disabled user stays out, whatever address the identity has.
 */
export const userOf = async (
  pool: pg.Pool,
  identity: Identity,
  sender: Pick<Act, "request_id" | "ip"> = { request_id: "", ip: null },
): Promise<User | undefined> => {
  const known = await boundUser(pool, identity);
  const { email } = identity;
  if (known !== undefined || email === null || !EMAIL.test(email)) return seen(pool, known);
  await bind(pool, { ...identity, email }, sender);
  // The identity was bound now, by a concurrent request of the same person, or not at all.
  return seen(pool, await boundUser(pool, identity));
};

/** Returns an active user, and stores the time of the visit once an hour. */
const seen = async (pool: pg.Pool, bound: Bound | undefined): Promise<User | undefined> => {
  if (!bound?.isActive) return undefined;
  if (bound.isUnseen) await markSeen(pool, bound.user.user_id);
  return bound.user;
};
const unseen = sql`(last_seen_at is null or last_seen_at < clock_timestamp() - interval '1 hour')`;
const markSeen = (pool: pg.Pool, userId: number): Promise<unknown> =>
  withUsers(pool, (tx) =>
    tx.query(sql`update users set last_seen_at = clock_timestamp() where user_id = ${userId} and ${unseen}`),
  );

interface Bound {
  readonly user: User;
  readonly isActive: boolean;
  /** True if the user was last seen more than an hour ago. */
  readonly isUnseen: boolean;
}
const boundUser = (pool: pg.Pool, { issuer, subject }: Identity): Promise<Bound | undefined> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rows } = await tx.query<User & { is_active: boolean; is_unseen: boolean }>(sql`
        select ${userColumns}, removed_at is null as is_active, ${unseen} as is_unseen from users
        where issuer = ${issuer} and subject = ${subject}`);
      return rows.map(({ is_active: isActive, is_unseen: isUnseen, ...user }) => ({ user, isActive, isUnseen }))[0];
    },
    { role: usersRole, isReadOnly: true },
  );

const bind = (
  pool: pg.Pool,
  { issuer, subject, email }: Identity & { readonly email: string },
  sender: Pick<Act, "request_id" | "ip">,
): Promise<void> =>
  transaction(pool, null, async (tx) => {
    const { rows } = await asUsers(tx, async () => {
      // Without the lock, two addresses of one subject at the same moment would violate the unique
      // index.
      await lockUntilCommit(tx, `tributary.identity ${issuer} ${subject}`);
      return tx.query<User>(sql`
        update users set issuer = ${issuer}, subject = ${subject}, bound_at = clock_timestamp()
        where email = ${addressOf(email)} and removed_at is null and issuer is null
          and not exists (select from users where issuer = ${issuer} and subject = ${subject})
        returning ${userColumns}`);
    });
    for (const user of rows) {
      const act = { actor: user.email, role: user.role, ...sender };
      await writeAudit(tx, act, {
        ...{ action: "user.bound", client_id: null, entity: `user:${user.user_id}`, after: { issuer } },
      });
    }
  });

/**
 * Unbinds the identity of a user; the next login with the address binds again. Returns false if
 * none was bound.
 */
export const unbindUser = async (tx: UserTransaction, userId: number): Promise<boolean> =>
  (
    await tx.query(sql`
      update users set issuer = null, subject = null, bound_at = null, updated_at = clock_timestamp()
      where user_id = ${userId} and issuer is not null`)
  ).rowCount === 1;

/**
 * Unbinds identities of these addresses that another issuer gave. Used for the identity provider of
 * a laptop, whose address changes with its port.
 */
export const unbindFromOthers = async (
  tx: UserTransaction,
  emails: readonly string[],
  issuer: string,
): Promise<void> => {
  await tx.query(sql`
    update users set issuer = null, subject = null, bound_at = null, updated_at = clock_timestamp()
    where email = any (${emails}) and issuer <> ${issuer}`);
};

// The users of the platform with their roles, and the database role that may read and write them.
import type pg from "pg";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import { conflict, missing, type RefusalError } from "../../base/refusal.ts";

export const roles = ["admin", "client_manager", "partner", "client_user", "viewer"] as const;
export type Role = (typeof roles)[number];

/** Languages of mails. */
export const locales = ["es", "en"] as const;
export type Locale = (typeof locales)[number];

export interface User {
  readonly user_id: number;
  readonly email: string;
  readonly name: string;
  readonly role: Role;
  readonly partner_id: number | null;
  /** Empty: every client of an admin or a partner, and none of a manager. */
  readonly client_ids: readonly number[];
  /** Of a viewer: whether it sees all clients, also later ones. */
  readonly all_clients: boolean;
  readonly locale: Locale;
}
/** A row of the list of users, which includes disabled ones. */
export interface ListedUser extends User {
  readonly status: "active" | "disabled";
  /** When the first login bound an identity to the user; null: none is bound. */
  readonly bound_at: number | null;
  /** The time of the newest request, to the hour. */
  readonly last_seen_at: number | null;
  readonly created_at: number;
  readonly updated_at: number;
  readonly version: number;
}
/** Used before any tenant is known; this role sees no tenant's rows. */
export const usersRole = "tributary_tokens";
export type UserTransaction = Pick<pg.PoolClient, "query">;

/** Runs `work` in a transaction that may read and write users, but no tenant's rows. */
export const withUsers = <T>(pool: pg.Pool, work: (tx: UserTransaction) => Promise<T>): Promise<T> =>
  transaction(pool, null, work, { role: usersRole });

/** Does the same inside the caller's transaction, and restores the caller's role. */
export const asUsers = async <T>(tx: UserTransaction, work: (tx: UserTransaction) => Promise<T>): Promise<T> => {
  await tx.query(`set local role ${usersRole}`);
  const result = await work(tx);
  await tx.query("set local role none");
  return result;
};

export const userColumns = sql`user_id, email, name, role, partner_id, client_ids, all_clients, locale`;
export const listedColumns = sql`${userColumns},
  case when removed_at is null then 'active' else 'disabled' end as status, bound_at, last_seen_at, created_at,
  updated_at, version`;

/** All users, disabled ones included, in the order in which they were created. */
export const listUsers = async (tx: UserTransaction): Promise<readonly ListedUser[]> =>
  (await tx.query<ListedUser>(sql`select ${listedColumns} from users order by user_id`)).rows;

/** Returns the newest user with this address, even if disabled. Throws RefusalError: missing. */
export const userByEmail = async (tx: UserTransaction, email: string): Promise<ListedUser> => {
  const found = await findByEmail(tx, email);
  if (found !== undefined) return found;
  throw missing();
};
/** Does the same, but returns undefined if there is none. */
export const findByEmail = async (tx: UserTransaction, email: string): Promise<ListedUser | undefined> =>
  (
    await tx.query<ListedUser>(sql`
      select ${listedColumns} from users where email = ${addressOf(email)}
      order by removed_at is null desc, user_id desc limit 1`)
  ).rows[0];

/** Returns the given addresses that belong to a user, even a disabled one, in lower case. */
export const addressesInUse = async (tx: UserTransaction, emails: readonly string[]): Promise<ReadonlySet<string>> => {
  const { rows } = await tx.query<{ email: string }>(
    sql`select distinct email from users where email = any (${emails.map(addressOf)})`,
  );
  return new Set(rows.map(({ email }) => email));
};

/** The refusal of an address that another user or partner has. */
export const emailInUse = (path: string, message = "there is a user of this address already"): RefusalError =>
  conflict("email_in_use", message, { path });

export const addressOf = (email: string): string => email.trim().toLowerCase();

/** Returns the user and locks all users until the commit. Throws RefusalError: missing. */
export const userToChange = async (tx: UserTransaction, userId: number): Promise<ListedUser> => {
  await lockUntilCommit(tx, "tributary.users");
  const { rows } = await tx.query<ListedUser>(sql`select ${listedColumns} from users where user_id = ${userId}`);
  if (rows[0] === undefined) throw missing();
  return rows[0];
};

/** The name of a user in the audit, and the fields that the audit keeps. */
export const entityOfUser = ({ user_id }: Pick<User, "user_id">): string => `user:${user_id}`;
export const settingsOf = ({ name, role, partner_id, client_ids, all_clients, status, locale }: ListedUser) => ({
  ...{ name, role, partner_id, client_ids, all_clients, status, locale },
});

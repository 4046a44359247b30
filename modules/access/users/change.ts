// Changes the name, role, tenants, status or locale of a user.
import { sql } from "../../../infra/postgres/sql.ts";
import { checkVersion, conflict } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { checkUser, type KnownTenants, tenantsFor } from "./user-rules.ts";
import {
  asUsers,
  entityOfUser,
  type ListedUser,
  listedColumns,
  settingsOf,
  type User,
  type UserTransaction,
  userByEmail,
  userToChange,
} from "./users.ts";

export type UserChange = Partial<Omit<User, "user_id" | "email"> & Pick<ListedUser, "status">>;

export interface UserPatch {
  readonly user: { readonly user_id: number } | { readonly email: string };
  readonly patch: UserChange;
  /** The version that the caller has seen; undefined: any. */
  readonly version?: number | undefined;
}

/**
 * Takes effect with the user's next request. Throws RefusalError: missing, invalid `bad_user`,
 * conflict `version_conflict`, `last_admin`.
 */
export const changeUser = async (work: Work, { user, patch, version }: UserPatch): Promise<ListedUser> => {
  const { tx, audit } = work;
  const known = await tenantsFor(work, patch.partner_id);
  const { before, after } = await asUsers(tx, async () => {
    const { user_id } = "email" in user ? await userByEmail(tx, user.email) : user;
    const found = await userToChange(tx, user_id);
    checkVersion(version, found.version);
    if (Object.keys(patch).length === 0) return { before: found, after: found };
    return { before: found, after: await updateUser(tx, user_id, patch, known) };
  });
  if (after === before) return after;
  const change = { before: settingsOf(before), after: settingsOf(after) };
  await audit({ action: "user.updated", client_id: null, entity: entityOfUser(after), ...change });
  return after;
};

/**
 * Needs a transaction that may write users. A change of role clears the tenants unless new ones are
 * given, and a viewer that gets clients sees no others. `known` is null if the tenants stay. Throws
 * RefusalError: the last active admin must stay one.
 */
export const updateUser = async (
  tx: UserTransaction,
  userId: number,
  change: UserChange,
  known: KnownTenants | null,
): Promise<ListedUser> => {
  if (known === null && (change.role ?? change.client_ids ?? change.partner_id) !== undefined)
    throw new Error("what tenants there are must be known to change a role or tenants");
  const before = await userToChange(tx, userId);
  const isNewRole = change.role !== undefined && change.role !== before.role;
  const after = {
    ...before,
    ...(isNewRole && { partner_id: null, client_ids: [], all_clients: false }),
    ...(change.all_clients === true && { client_ids: [] }),
    ...(change.client_ids !== undefined && { all_clients: false }),
    ...change,
  };
  const { name, role, partner_id, client_ids, all_clients, locale } = checkUser(after, known);
  if (before.role === "admin" && before.status === "active" && (role !== "admin" || after.status === "disabled"))
    await refuseLastAdmin(tx, userId);
  const { rows } = await tx.query<ListedUser>(sql`
    update users set name = ${name}, role = ${role}, partner_id = ${partner_id}, client_ids = ${client_ids},
      all_clients = ${all_clients}, locale = ${locale},
      removed_at = case when ${after.status} = 'active' then null else coalesce(removed_at, clock_timestamp()) end,
      updated_at = clock_timestamp(), version = version + 1
    where user_id = ${userId} returning ${listedColumns}`);
  return rows[0]!;
};

const refuseLastAdmin = async (tx: UserTransaction, userId: number): Promise<void> => {
  const { rowCount } = await tx.query(
    sql`select from users where role = 'admin' and removed_at is null and user_id <> ${userId} limit 1`,
  );
  if (rowCount === 0) throw conflict("last_admin", "this is the last admin: make another one first", { path: "/role" });
};

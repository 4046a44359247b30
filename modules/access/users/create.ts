// Creates a user, who signs in with the first login of the same address.
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import type { Work } from "../../base/work.ts";
import { checkUser, type KnownTenants, type NewUser, tenantsFor } from "./user-rules.ts";
import {
  asUsers,
  emailInUse,
  entityOfUser,
  findByEmail,
  type ListedUser,
  listedColumns,
  settingsOf,
  type UserTransaction,
} from "./users.ts";

/** Throws RefusalError: invalid `bad_user`, conflict `email_in_use`. */
export const createUser = async (work: Work, input: NewUser): Promise<ListedUser> => {
  const { tx, audit } = work;
  const known = await tenantsFor(work, input.partner_id);
  const user = await asUsers(tx, () => insertUser(tx, input, known));
  const after = settingsOf(user);
  await audit({ action: "user.created", client_id: null, entity: entityOfUser(user), after });
  return user;
};

/**
 * Needs a transaction that may write users. Throws RefusalError: `bad_user`; `email_in_use` also if
 * the user with this address is disabled, so that a person stays one row in the audit.
 */
export const insertUser = async (tx: UserTransaction, wanted: NewUser, known: KnownTenants): Promise<ListedUser> => {
  const user = checkUser(
    {
      ...wanted,
      partner_id: wanted.partner_id ?? null,
      client_ids: wanted.client_ids ?? [],
      all_clients: wanted.all_clients ?? false,
      locale: wanted.locale ?? "es",
    },
    known,
  );
  await lockUntilCommit(tx, "tributary.users");
  const same = await findByEmail(tx, user.email);
  if (same !== undefined)
    throw emailInUse(
      "/email",
      `there is a user ${user.email} already${same.status === "disabled" ? ", disabled: enable it" : ""}`,
    );
  const { rows } = await tx.query<ListedUser>(sql`
    insert into users (email, name, role, partner_id, client_ids, all_clients, locale)
    values (${user.email}, ${user.name}, ${user.role}, ${user.partner_id}, ${user.client_ids},
      ${user.all_clients}, ${user.locale})
    returning ${listedColumns}`);
  return rows[0]!;
};

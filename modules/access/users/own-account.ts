// Lets users change their own name and the language of their mails.
import { sql } from "../../../infra/postgres/sql.ts";
import type { Work } from "../../base/work.ts";
import { asUsers, entityOfUser, type User } from "./users.ts";

export type OwnAccount = Pick<User, "name" | "locale">;

/**
 * Returns the changed account. Users belong to no tenant, so this runs in the role that may write
 * them.
 */
export const changeAccount = async (
  { tx, audit }: Work,
  user: User,
  { name, locale }: Readonly<Partial<OwnAccount>>,
): Promise<User> => {
  const { rows } = await asUsers(tx, () =>
    tx.query<OwnAccount>(sql`
      update users set name = coalesce(${name ?? null}, name), locale = coalesce(${locale ?? null}, locale),
        updated_at = clock_timestamp(), version = version + 1
      where user_id = ${user.user_id} returning name, locale`),
  );
  const [before, after] = [{ name: user.name, locale: user.locale }, rows[0]!];
  await audit({ action: "user.updated", client_id: null, entity: entityOfUser(user), before, after });
  return { ...user, ...after };
};

// What users change of themselves: their name, and the language of their mails.
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";
import { asUsers, type User } from "./users.ts";

export type OwnAccount = Pick<User, "name" | "locale">;

/**
 * Changes what is given, inside a transaction of the caller. Answers the account as it is then.
 * Users belong to no tenant: the role that may write them does.
 */
export const changeAccount = async (
  tx: PoolClient,
  userId: number,
  { name, locale }: Readonly<Partial<OwnAccount>>,
): Promise<OwnAccount> => {
  const { rows } = await asUsers(tx, () =>
    tx.query<OwnAccount>(sql`
      update users set name = coalesce(${name ?? null}, name), locale = coalesce(${locale ?? null}, locale),
        updated_at = clock_timestamp(), version = version + 1
      where user_id = ${userId} returning name, locale`),
  );
  return rows[0]!;
};

// Finds the recipients of mails about a client or a partner. Users belong to no tenant, so the
// queries run in the role that sees all of them.
import type { PoolClient } from "pg";
import { type Sql, sql } from "../../../infra/postgres/sql.ts";
import { asUsers, type Locale } from "./users.ts";

export interface Recipient {
  readonly email: string;
  readonly locale: Locale;
}

/** Active admins, and active managers of the client. */
export const staffOf = (tx: PoolClient, clientId: number): Promise<readonly Recipient[]> =>
  usersWhere(tx, sql`role = 'admin' or ${manages(clientId)}`);

/** Active managers of the client. */
export const managersOf = (tx: PoolClient, clientId: number): Promise<readonly Recipient[]> =>
  usersWhere(tx, manages(clientId));

/** The active user with this address; undefined if there is none. */
export const recipientAt = async (tx: PoolClient, email: string): Promise<Recipient | undefined> =>
  (await usersWhere(tx, sql`email = ${email}`))[0];

const manages = (clientId: number): Sql => sql`(role = 'client_manager' and ${clientId}::int = any (client_ids))`;
const usersWhere = (tx: PoolClient, condition: Sql): Promise<readonly Recipient[]> =>
  asUsers(tx, async () => {
    const { rows } = await tx.query<Recipient>(sql`
      select email, locale from users where removed_at is null and (${condition}) order by user_id`);
    return rows;
  });

/**
 * The users of each of these partners, which the transaction must be able to see. If a client is
 * given, those who see that client. A partner without such users gets mail at its own address, in
 * Spanish.
 */
export const addressesOfPartners = async (
  tx: PoolClient,
  partners: readonly number[],
  clientId: number | null = null,
): Promise<readonly (Recipient & { readonly partner_id: number })[]> => {
  type Row = Recipient & { readonly partner_id: number };
  const users = await asUsers(tx, async () => {
    const { rows } = await tx.query<Row>(sql`
      select partner_id, email, locale from users
      where partner_id = any (${partners}::int[]) and removed_at is null
        and (client_ids = '{}' or ${clientId}::int is null or ${clientId} = any (client_ids)) order by user_id`);
    return rows;
  });
  const without = partners.filter((id) => !users.some(({ partner_id }) => partner_id === id));
  if (without.length === 0) return users;
  const { rows: own } = await tx.query<Row>(sql`
    select distinct on (partner_id) partner_id, lower(email) as email, 'es' as locale from partners
    where partner_id = any (${without}::int[]) order by partner_id, version desc`);
  return [...users, ...own];
};

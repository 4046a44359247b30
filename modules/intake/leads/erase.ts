// Erases the leads of a subject: the keys go, and with them what they opened, and every row that
// said whose it was.
import type { PoolClient } from "pg";
import { leadIdOf } from "../../../domain/lead-key.ts";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import { leadsLock } from "./lead-store.ts";

/** As the list of suppressions has them; other kinds have no leads. */
interface ErasedSubject {
  readonly kind: string;
  readonly subject: string;
}

/**
 * Inside a transaction that sees the client. Leads that name any of them are unreadable from the
 * commit on, for every process and in every later backup; amounts, products and times stay. A push
 * after it is a new one. Answers how many leads.
 */
export const eraseLeads = async (
  tx: PoolClient,
  clientId: number,
  subjects: readonly ErasedSubject[],
): Promise<number> => {
  const of = (kind: string): readonly string[] => subjects.flatMap((one) => (one.kind === kind ? [one.subject] : []));
  const [emails, phones] = [of("email"), of("phone")];
  const ids = of("client_lead_id").map((subject) => leadIdOf(clientId, subject));
  if (emails.length + phones.length + ids.length === 0) return 0;
  await lockUntilCommit(tx, leadsLock(clientId));
  await tx.query(sql`update leads set client_lead_id = null
    where client_id = any (${[clientId]}::int[]) and lead_id = any (${ids})`);
  return forgetPeople(tx, clientId, { emails, phones, leads: ids });
};

interface PersonNames {
  readonly emails?: readonly string[];
  readonly phones?: readonly string[];
  readonly leads: readonly string[];
}

/**
 * What is personal of the leads that name any of them, and the keys: those of the named, and those
 * of whom no lead is left. Under the lock of the client's leads. Answers how many leads.
 */
export const forgetPeople = async (
  tx: PoolClient,
  clientId: number,
  { emails = [], phones = [], leads }: PersonNames,
): Promise<number> => {
  const { rows } = await tx.query<{ lead_id: string; email: string | null; phone: string | null }>(sql`
    delete from lead_people where client_id = any (${[clientId]}::int[])
      and (email = any (${emails}) or phone = any (${phones}) or lead_id = any (${leads}))
    returning lead_id, email, phone`);
  const named = {
    emails: [...emails, ...rows.flatMap(({ email }) => email ?? [])],
    phones: [...phones, ...rows.flatMap(({ phone }) => phone ?? [])],
    leads: [...leads, ...rows.map(({ lead_id }) => lead_id)],
  };
  await tx.query(sql`
    delete from lead_keys k where client_id = any (${[clientId]}::int[]) and (
      kind = 'lead' and subject = any (${named.leads})
      or kind = 'email' and subject = any (${named.emails})
        and not exists (select 1 from lead_people p where p.client_id = k.client_id and p.email = k.subject)
      or kind = 'phone' and subject = any (${named.phones})
        and not exists (select 1 from lead_people p where p.client_id = k.client_id and p.phone = k.subject))`);
  return rows.length;
};

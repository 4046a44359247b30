// Erases the leads of a subject: deletes the keys, which makes the sealed data unreadable, and
// removes every link from a row to the person.
import type { PoolClient } from "pg";
import { leadIdOf } from "../../../domain/ids.ts";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import { leadsLock } from "./lead-store.ts";

/** A subject of the list of suppressions; other kinds have no leads. */
interface ErasedSubject {
  readonly kind: string;
  readonly subject: string;
}

/**
 * Needs a transaction that sees the client. From the commit on, leads that name any of the subjects
 * are unreadable for every process and in every later backup; amounts, products and times stay. A
 * later push is a new lead. Returns the number of leads.
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
  // A client's own id may be an address of the person, as its hash.
  await tx.query(sql`update leads set client_lead_id = null
    where client_id = any (${[clientId]}::int[]) and (lead_id = any (${ids}) or lead_id in (
      select lead_id from lead_people
      where client_id = any (${[clientId]}::int[]) and (email = any (${emails}) or phone = any (${phones}))))`);
  return forgetPeople(tx, clientId, { emails, phones, leads: ids });
};

interface PersonNames {
  readonly emails?: readonly string[];
  readonly phones?: readonly string[];
  readonly leads: readonly string[];
}

/**
 * Deletes the personal data of leads that name any of the subjects, and their keys, as well as keys
 * of other subjects without remaining leads. The caller holds the lock of the client's leads.
 * Returns the number of leads.
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

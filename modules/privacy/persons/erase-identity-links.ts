// Erases the identity edges of a subject, and returns the devices on which it was seen.
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";

/**
 * Runs inside a transaction that sees the client. Returns the devices (`did` of the log) of the
 * subjects: those that are named, and those that showed the e-mail or phone of one. Other edges
 * that the same events proved are erased too. `subjects` as in the list of suppressions.
 */
export const eraseIdentityLinks = async (
  tx: PoolClient,
  clientId: number,
  subjects: readonly { readonly kind: string; readonly subject: string }[],
): Promise<readonly string[]> => {
  const of = (...kinds: readonly string[]): readonly string[] =>
    subjects.flatMap(({ kind, subject }) => (kinds.includes(kind) ? [subject] : []));
  const [devices, people] = [of("did"), of("email", "phone")];
  if (devices.length === 0 && people.length === 0) return [];
  const isOfThem = sql`client_id = any (${[clientId]}::int[])
    and (did = any (${devices}) or identifier = any (${people}))`;
  const { rows } = await tx.query<{ did: string }>(sql`
    with of_them as (select did, evidence_event_id from identity_edges where ${isOfThem}),
    gone as (delete from identity_edges where ${isOfThem}
      or client_id = any (${[clientId]}::int[])
        and (did, evidence_event_id) in (select did, evidence_event_id from of_them))
    select distinct did from of_them`);
  return [...new Set([...devices, ...rows.map(({ did }) => did)])];
};

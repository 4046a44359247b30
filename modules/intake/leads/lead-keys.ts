// The keys of subjects in Postgres, each sealed under the vault of its client. A transaction reads
// and makes them in the role tributary_secrets.
import type { PoolClient } from "pg";
import { type Sql, sql } from "../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { makeVaultWithin, vaultWithin } from "../../access/secrets/client-secrets.ts";
import { type LeadSubject, nameOf, newKey, sealKey, unsealKey } from "./lead-cipher.ts";

const leadVault = (clientId: number) => ({ clientId, vault: "lead_vault" }) as const;
/** The number of cached vaults; a client's vault never changes. */
const MOST_VAULTS = 1_000;

/** Keys by the `nameOf` of their subjects. */
type KeysByName = ReadonlyMap<string, Buffer>;
type Ask = (tx: PoolClient, clientId: number, subjects: readonly LeadSubject[]) => Promise<KeysByName>;

export interface LeadKeys {
  /** Returns the keys of those subjects that have one. */
  readonly find: Ask;
  /** Returns the keys of all subjects, and makes missing ones. */
  readonly findOrMake: Ask;
}

export const openLeadKeys = (keyring: Keyring): LeadKeys => {
  const vaults = new Map<number, Buffer>();
  /** A new vault is cached only when it is read the next time, because it is committed by then. */
  const savedVault = async (tx: PoolClient, clientId: number): Promise<Buffer | null> => {
    const known = vaults.get(clientId) ?? (await vaultWithin(tx, leadVault(clientId), keyring));
    if (known === null) return null;
    vaults.delete(clientId);
    vaults.set(clientId, known);
    if (vaults.size > MOST_VAULTS) vaults.delete(vaults.keys().next().value!);
    return known;
  };
  return {
    find: (tx, clientId, subjects) =>
      asSecrets(tx, async () => {
        const vault = await savedVault(tx, clientId);
        return vault === null ? new Map() : stored(tx, { clientId, vault }, subjects);
      }),
    findOrMake: (tx, clientId, subjects) =>
      asSecrets(tx, async () => {
        const vault = (await savedVault(tx, clientId)) ?? (await makeVaultWithin(tx, leadVault(clientId), keyring));
        return storedOrMade(tx, { clientId, vault }, subjects);
      }),
  };
};

const asSecrets = async <T>(tx: PoolClient, work: () => Promise<T>): Promise<T> => {
  await tx.query("set local role tributary_secrets");
  const result = await work();
  await tx.query("set local role none");
  return result;
};

interface Owner {
  readonly clientId: number;
  readonly vault: Buffer;
}
const recordsOf = (subjects: readonly (LeadSubject & { readonly sealed?: string })[]): Sql =>
  sql`jsonb_to_recordset(${JSON.stringify(subjects)}::jsonb) as given (kind text, subject text, sealed text)`;

const stored = async (
  tx: PoolClient,
  { clientId, vault }: Owner,
  subjects: readonly LeadSubject[],
): Promise<KeysByName> => {
  // One index look-up each: a join might read all keys of the client.
  const { rows } = await tx.query<LeadSubject & { sealed: Buffer }>(sql`
    select known.* from ${recordsOf(subjects)}, lateral (
      select k.kind, k.subject, k.sealed from lead_keys k where k.client_id = any (${[clientId]}::int[])
        and k.kind = given.kind and k.subject = given.subject limit 1) as known`);
  return new Map(rows.map(({ sealed, ...one }) => [nameOf(one), unsealKey(vault, clientId, one, sealed)]));
};

const storedOrMade = async (tx: PoolClient, owner: Owner, subjects: readonly LeadSubject[]): Promise<KeysByName> => {
  const { clientId, vault } = owner;
  const unique = [...new Map(subjects.map((one) => [nameOf(one), one])).values()];
  const found = await stored(tx, owner, unique);
  const missing = unique.filter((one) => !found.has(nameOf(one)));
  if (missing.length === 0) return found;
  const made = new Map(missing.map((one) => [nameOf(one), newKey()]));
  const rows = missing.map((one) => ({
    ...one,
    sealed: sealKey(vault, clientId, one, made.get(nameOf(one))!).toString("base64"),
  }));
  // Inserts in a fixed order, so that two transactions never deadlock.
  const { rows: mine } = await tx.query<LeadSubject>(sql`
    insert into lead_keys (client_id, kind, subject, sealed)
    select ${clientId}, kind, subject, decode(sealed, 'base64') from ${recordsOf(rows)}
    order by kind, subject on conflict do nothing returning kind, subject`);
  const inserted = new Set(mine.map(nameOf));
  // Another push may have made some of them and committed meanwhile.
  const others = missing.filter((one) => !inserted.has(nameOf(one)));
  const theirs = others.length === 0 ? new Map<string, Buffer>() : await stored(tx, owner, others);
  return new Map([...found, ...[...made].filter(([name]) => inserted.has(name)), ...theirs]);
};

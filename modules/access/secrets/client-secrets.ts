// Stores the secret that signs a client's lead pushes, and the vault keys of its leads and
// recordings. All are sealed, and only the role tributary_secrets reads them; edges also read the
// recording vault.
import { randomBytes } from "node:crypto";
import type pg from "pg";
import { named, sql, transaction } from "../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { isOld, seal, sealedUnder, unseal } from "./seal.ts";
import { resealSourcesWithin, sealedOfSources } from "./source-secrets.ts";

/** 32 random bytes in hex. The hex text itself is the HMAC key. */
export const newClientSecret = (): string => randomBytes(32).toString("hex");

const role = "tributary_secrets";
const placeOf = (clientId: number): string => `client_secrets/${clientId}`;

/** Replaces the client's secret; the old one stops working. */
export const saveClientSecret = (pool: pg.Pool, clientId: number, secret: string, keyring: Keyring): Promise<void> =>
  transaction(pool, [clientId], (tx) => saveClientSecretWithin(tx, clientId, secret, keyring));

/** Does the same inside the caller's transaction, which must have access to the client. */
export const saveClientSecretWithin = async (
  tx: pg.PoolClient,
  clientId: number,
  secret: string,
  keyring: Keyring,
): Promise<void> => {
  const sealed = seal(secret, placeOf(clientId), keyring);
  await tx.query(`set local role ${role}`);
  await tx.query(sql`insert into client_secrets (client_id, hmac_secret) values (${clientId}, ${sealed})
    on conflict (client_id) do update set hmac_secret = excluded.hmac_secret, updated_at = clock_timestamp()`);
  await tx.query("set local role none");
};

const storedOf = async (tx: pg.PoolClient, clientId: number): Promise<string | undefined> =>
  (await tx.query<{ hmac_secret: string }>(sql`select hmac_secret from client_secrets where client_id = ${clientId}`))
    .rows[0]?.hmac_secret;

/**
 * Returns the secret of each client that has one. Each is unsealed only when it is called, so that
 * one broken secret does not block the rest. The call throws CannotUnseal.
 */
export const clientSecretsOf = (
  pool: pg.Pool,
  clients: readonly number[],
  keyring: Keyring,
): Promise<ReadonlyMap<number, () => string>> =>
  transaction(
    pool,
    clients,
    async (tx) => {
      const { rows } = await tx.query<{ client_id: number; hmac_secret: string }>(
        sql`select client_id, hmac_secret from client_secrets where client_id = any (${clients}::int[])`,
      );
      return new Map(
        rows.map(({ client_id: id, hmac_secret: stored }) => [id, () => unseal(stored, placeOf(id), keyring)]),
      );
    },
    { role, isReadOnly: true },
  );

/** Returns the client's secret; undefined if it has none. Throws CannotUnseal. */
export const clientSecretOf = (pool: pg.Pool, clientId: number, keyring: Keyring): Promise<string | undefined> =>
  transaction(pool, [clientId], (tx) => clientSecretWithin(tx, clientId, keyring), { isReadOnly: true });

/** Does the same inside the caller's transaction, which must have access to the client. */
export const clientSecretWithin = async (
  tx: pg.PoolClient,
  clientId: number,
  keyring: Keyring,
): Promise<string | undefined> => {
  await tx.query(`set local role ${role}`);
  const stored = await storedOf(tx, clientId);
  await tx.query("set local role none");
  return stored === undefined ? undefined : unseal(stored, placeOf(clientId), keyring);
};

/** `lead_vault` protects the keys of leads, `recording_vault` those of recorded devices. */
export interface VaultOf {
  readonly clientId: number;
  readonly vault: "lead_vault" | "recording_vault";
}
const vaultPlace = ({ clientId, vault }: VaultOf): string => `client_secrets/${clientId}/${vault}`;

/**
 * Returns the 32-byte key that protects the client's other keys; null if it has none yet. Needs a
 * transaction with access to the client, in a role that may read the vault. Throws CannotUnseal.
 */
export const vaultWithin = async (tx: pg.PoolClient, of: VaultOf, keyring: Keyring): Promise<Buffer | null> => {
  const { rows } = await tx.query<{ vault: string | null }>(
    sql`select ${named(of.vault)} as vault from client_secrets where client_id = any (${[of.clientId]}::int[])`,
  );
  const sealed = rows[0]?.vault ?? null;
  return sealed === null ? null : Buffer.from(unseal(sealed, vaultPlace(of), keyring), "base64");
};

/** Does the same, but makes the key if there is none. Throws if the client has no secret. */
export const makeVaultWithin = async (tx: pg.PoolClient, of: VaultOf, keyring: Keyring): Promise<Buffer> => {
  const sealed = seal(randomBytes(32).toString("base64"), vaultPlace(of), keyring);
  await tx.query(sql`update client_secrets set ${named(of.vault)} = ${sealed}
    where client_id = any (${[of.clientId]}::int[]) and ${named(of.vault)} is null`);
  const vault = await vaultWithin(tx, of, keyring);
  if (vault === null) throw new Error(`client ${of.clientId} has no secret, so no ${of.vault} can be made for it`);
  return vault;
};

const clientIds = (pool: pg.Pool): Promise<readonly number[]> =>
  transaction(
    pool,
    null,
    async (tx) => (await tx.query<{ client_id: number }>("select distinct client_id from clients order by 1")).rows,
    { role: "tributary_reference", isReadOnly: true },
  ).then((rows) => rows.map(({ client_id }) => client_id));

/**
 * Counts sealed secrets and vaults, including those of sources, by the fingerprint that sealed
 * them; null: plain text.
 */
export const sealedCounts = async (pool: pg.Pool): Promise<ReadonlyMap<string | null, number>> => {
  const clients = await clientIds(pool);
  const stored = await transaction(
    pool,
    clients,
    async (tx) => {
      const { rows } = await tx.query<{ sealed: string }>(
        `select sealed from client_secrets,
           unnest(array[hmac_secret, lead_vault, recording_vault]) as sealed where sealed is not null
         union all select sealed from payment_processors`,
      );
      return [...rows.map(({ sealed }) => sealed), ...(await sealedOfSources(tx))];
    },
    { role, isReadOnly: true },
  );
  const counts = new Map<string | null, number>();
  for (const sealed of stored) {
    const under = sealedUnder(sealed);
    counts.set(under, (counts.get(under) ?? 0) + 1);
  }
  return counts;
};

/**
 * Seals the secrets and vaults of every client and of its sources under the newest secret, one
 * transaction a client. After a crash the next run continues, because each row names its key.
 * Returns how many values were not under the newest, counted as `sealedCounts` does. Throws
 * CannotUnseal at the first unreadable value. `onDone` receives the progress in clients.
 */
export const resealClientSecrets = async (
  pool: pg.Pool,
  keyring: Keyring,
  onDone: (done: number, all: number) => void = () => undefined,
): Promise<number> => {
  const clients = await clientIds(pool);
  let changed = 0;
  for (const [n, clientId] of clients.entries()) {
    changed += await transaction(
      pool,
      [clientId],
      async (tx) =>
        (await resealOwn(tx, clientId, keyring)) +
        (await resealSourcesWithin(tx, clientId, keyring)) +
        (await resealProcessors(tx, clientId, keyring)),
      { role },
    );
    onDone(n + 1, clients.length);
  }
  return changed;
};

/** Reseals the client's own secret and vaults. Returns how many were under an older secret. */
const resealOwn = async (tx: pg.PoolClient, clientId: number, keyring: Keyring): Promise<number> => {
  const { rows } = await tx.query<{ hmac_secret: string } & Record<VaultOf["vault"], string | null>>(
    sql`select hmac_secret, lead_vault, recording_vault from client_secrets
      where client_id = ${clientId} for update`,
  );
  const stored = rows[0];
  const old = Object.values(stored ?? {}).filter((one) => isOld(one, keyring)).length;
  if (stored === undefined || old === 0) return 0;
  const again = (text: string | null, place: string) =>
    text === null ? null : seal(unseal(text, place, keyring), place, keyring);
  const vaultAgain = (vault: VaultOf["vault"]) => again(stored[vault], vaultPlace({ clientId, vault }));
  await tx.query(sql`update client_secrets set hmac_secret = ${again(stored.hmac_secret, placeOf(clientId))},
    lead_vault = ${vaultAgain("lead_vault")}, recording_vault = ${vaultAgain("recording_vault")}
    where client_id = ${clientId}`);
  return old;
};

/**
 * Reseals the signing secrets of the client's payment accounts. Returns how many were under an
 * older secret.
 */
const resealProcessors = async (tx: pg.PoolClient, clientId: number, keyring: Keyring): Promise<number> => {
  const { rows } = await tx.query<{ processor: string; sealed: string }>(
    sql`select processor, sealed from payment_processors where client_id = ${clientId} for update`,
  );
  const old = rows.filter(({ sealed }) => isOld(sealed, keyring));
  for (const { processor, sealed } of old) {
    const place = `payment_processors/${clientId}/${processor}`;
    await tx.query(sql`update payment_processors set sealed = ${seal(unseal(sealed, place, keyring), place, keyring)}
      where client_id = ${clientId} and processor = ${processor}`);
  }
  return old.length;
};

// The secret that signs a client's lead pushes, and the vault that the keys of its leads are sealed
// under: sealed, and readable under the role tributary_secrets alone.
import { randomBytes } from "node:crypto";
import type pg from "pg";
import { sql, transaction } from "../../infra/postgres/sql.ts";
import type { Keyring } from "../../infra/runtime/keyring.ts";
import { fingerprintOf } from "./installation-secrets.ts";
import { seal, sealedUnder, unseal } from "./sealed.ts";

/** 32 random bytes in hex, of which the text itself is the HMAC key. */
export const newClientSecret = (): string => randomBytes(32).toString("hex");

const role = "tributary_secrets";
const placeOf = (clientId: number): string => `client_secrets/${clientId}`;

/** Replaces the client's secret; the old one is good for nothing from then on. */
export const saveClientSecret = (pool: pg.Pool, clientId: number, secret: string, keyring: Keyring): Promise<void> =>
  transaction(pool, [clientId], (tx) => saveClientSecretWithin(tx, clientId, secret, keyring));

/** The same inside a transaction of the caller, which sees the client. */
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
 * The secret of each of these clients that has one; unsealed when it is asked for, since one that
 * cannot be must not stop the others. It throws CannotUnseal.
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

/** The client's secret; undefined when it has none. Throws CannotUnseal. */
export const clientSecretOf = (pool: pg.Pool, clientId: number, keyring: Keyring): Promise<string | undefined> =>
  transaction(pool, [clientId], (tx) => clientSecretWithin(tx, clientId, keyring), { isReadOnly: true });

/** The same inside a transaction of the caller, which sees the client. */
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

const vaultPlace = (clientId: number): string => `client_secrets/${clientId}/lead_vault`;

/**
 * The key of 32 bytes under which the keys of a client's leads lie; null: it has no lead yet.
 * Inside a transaction that sees the client and acts as tributary_secrets. Throws CannotUnseal.
 */
export const leadVaultWithin = async (
  tx: pg.PoolClient,
  clientId: number,
  keyring: Keyring,
): Promise<Buffer | null> => {
  const { rows } = await tx.query<{ lead_vault: string | null }>(
    sql`select lead_vault from client_secrets where client_id = any (${[clientId]}::int[])`,
  );
  const sealed = rows[0]?.lead_vault ?? null;
  return sealed === null ? null : Buffer.from(unseal(sealed, vaultPlace(clientId), keyring), "base64");
};

/** The same, made now when there is none. Throws when the client has no secret. */
export const makeLeadVaultWithin = async (tx: pg.PoolClient, clientId: number, keyring: Keyring): Promise<Buffer> => {
  const sealed = seal(randomBytes(32).toString("base64"), vaultPlace(clientId), keyring);
  await tx.query(sql`update client_secrets set lead_vault = ${sealed}
    where client_id = any (${[clientId]}::int[]) and lead_vault is null`);
  const vault = await leadVaultWithin(tx, clientId, keyring);
  if (vault === null) throw new Error(`client ${clientId} has no secret, so no lead of it can be stored`);
  return vault;
};

const clientIds = (pool: pg.Pool): Promise<readonly number[]> =>
  transaction(
    pool,
    null,
    async (tx) => (await tx.query<{ client_id: number }>("select client_id from clients order by 1")).rows,
    { role: "tributary_reference", isReadOnly: true },
  ).then((rows) => rows.map(({ client_id }) => client_id));

/** How many secrets and vaults lie under which fingerprint; under null those in plain text. */
export const sealedCounts = async (pool: pg.Pool): Promise<ReadonlyMap<string | null, number>> => {
  const clients = await clientIds(pool);
  const stored = await transaction(
    pool,
    clients,
    async (tx) =>
      (
        await tx.query<{ sealed: string }>(
          `select hmac_secret as sealed from client_secrets
           union all select lead_vault from client_secrets where lead_vault is not null`,
        )
      ).rows,
    { role, isReadOnly: true },
  );
  const counts = new Map<string | null, number>();
  for (const { sealed } of stored) {
    const under = sealedUnder(sealed);
    counts.set(under, (counts.get(under) ?? 0) + 1);
  }
  return counts;
};

/**
 * Seals every client's secret and vault under the newest secret, each row in a transaction of its
 * own: killed between two, the next run goes on, for each row names its key. Throws CannotUnseal at
 * the first that cannot be read. `onDone` hears how many are done, of how many.
 */
export const resealClientSecrets = async (
  pool: pg.Pool,
  keyring: Keyring,
  onDone: (done: number, all: number) => void = () => undefined,
): Promise<number> => {
  const newest = fingerprintOf(keyring.newest);
  const clients = await clientIds(pool);
  let changed = 0;
  for (const [n, clientId] of clients.entries()) {
    const isChanged = await transaction(
      pool,
      [clientId],
      async (tx) => {
        const { rows } = await tx.query<{ hmac_secret: string; lead_vault: string | null }>(
          sql`select hmac_secret, lead_vault from client_secrets where client_id = ${clientId} for update`,
        );
        const stored = rows[0];
        if (stored === undefined) return false;
        const old = [stored.hmac_secret, stored.lead_vault].filter((one) => one !== null);
        if (old.every((one) => sealedUnder(one) === newest)) return false;
        const again = (text: string, place: string) => seal(unseal(text, place, keyring), place, keyring);
        await tx.query(sql`update client_secrets set
          hmac_secret = ${again(stored.hmac_secret, placeOf(clientId))},
          lead_vault = ${stored.lead_vault === null ? null : again(stored.lead_vault, vaultPlace(clientId))}
          where client_id = ${clientId}`);
        return true;
      },
      { role },
    );
    if (isChanged) changed += 1;
    onDone(n + 1, clients.length);
  }
  return changed;
};

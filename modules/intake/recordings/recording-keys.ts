// The key of each recorded device in Postgres, encrypted under the vault of its client. A
// transaction reads and makes keys as tributary_pixel.
import { randomBytes } from "node:crypto";
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { makeVaultWithin, vaultWithin } from "../../access/secrets/client-secrets.ts";
import { sealBytes, unsealBytes } from "../../access/secrets/seal.ts";

interface Device {
  readonly clientId: number;
  /** Keyed hash. */
  readonly device: string;
}
const placeOf = ({ clientId, device }: Device): string => `recording_keys/${clientId}/${device}`;
const vaultOf = ({ clientId }: Device) => ({ clientId, vault: "recording_vault" }) as const;

/** Undefined: the device has no key, or its key was deleted. */
export const recordingKey = async (tx: PoolClient, of: Device, keyring: Keyring): Promise<Buffer | undefined> => {
  const { rows } = await tx.query<{ sealed: Buffer }>(sql`select sealed from recording_keys
    where client_id = any (${[of.clientId]}::int[]) and device = ${of.device}`);
  const vault = rows[0] === undefined ? null : await vaultWithin(tx, vaultOf(of), keyring);
  return vault === null ? undefined : unsealBytes(vault, rows[0]!.sealed, placeOf(of));
};

/** Makes the key if there is none. */
export const recordingKeyOrNew = async (tx: PoolClient, of: Device, keyring: Keyring): Promise<Buffer> => {
  const known = await recordingKey(tx, of, keyring);
  if (known !== undefined) return known;
  const vault = (await vaultWithin(tx, vaultOf(of), keyring)) ?? (await makeVaultWithin(tx, vaultOf(of), keyring));
  await tx.query(sql`insert into recording_keys (client_id, device, sealed)
    values (${of.clientId}, ${of.device}, ${sealBytes(vault, randomBytes(32), placeOf(of))}) on conflict do nothing`);
  return (await recordingKey(tx, of, keyring))!;
};

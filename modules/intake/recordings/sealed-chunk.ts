// The form of a chunk in object storage: its object key, and its content compressed and encrypted
// under the key of the visitor's device. That key lies in Postgres, encrypted under the client's
// vault. A transaction reads and makes keys as tributary_pixel.
import { randomBytes } from "node:crypto";
import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { makeVaultWithin, vaultWithin } from "../../access/secrets/client-secrets.ts";
import { sealBytes, unsealBytes } from "../../access/secrets/seal.ts";

export interface ChunkPlace {
  readonly clientId: number;
  readonly sessionId: string;
  readonly page: string;
  readonly seq: number;
}

const pack = promisify(gzip);
const unpack = promisify(gunzip);
/** Request bodies are limited to less; stored objects are our own. */
const MAX_BYTES = 4 * 1024 * 1024;

/** Its key in object storage; the content is bound to it by the encryption. */
export const objectKeyOf = ({ clientId, sessionId, page, seq }: ChunkPlace): string =>
  `recordings/${clientId}/${sessionId}/${page}-${String(seq).padStart(4, "0")}`;

/** `events`: a JSON list. */
export const sealChunk = async (key: Buffer, place: ChunkPlace, events: string): Promise<Buffer> =>
  sealBytes(key, await pack(Buffer.from(events)), objectKeyOf(place));

/** Throws when the object was changed or moved, or was encrypted under another key. */
export const unsealChunk = async (key: Buffer, place: ChunkPlace, sealed: Buffer): Promise<readonly unknown[]> => {
  const packed = unsealBytes(key, sealed, objectKeyOf(place));
  return JSON.parse((await unpack(packed, { maxOutputLength: MAX_BYTES })).toString("utf8"));
};

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

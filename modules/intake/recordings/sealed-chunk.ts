// The form of a chunk in object storage: its object key, and its content compressed and encrypted
// under the key of the visitor's device.
import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";
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

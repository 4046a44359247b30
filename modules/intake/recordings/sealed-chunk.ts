// How a chunk lies in object storage: its key, and its content packed and sealed under the key of
// the visitor's device.
import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";
import { sealBytes, unsealBytes } from "../../access/secrets/sealed.ts";

export interface ChunkPlace {
  readonly clientId: number;
  readonly sessionId: string;
  readonly page: string;
  readonly seq: number;
}

const pack = promisify(gzip);
const unpack = promisify(gunzip);
/** What a body may hold is less; a stored object is our own. */
const MAX_BYTES = 4 * 1024 * 1024;

/** Its key in object storage, which it is sealed to as well. */
export const objectKeyOf = ({ clientId, sessionId, page, seq }: ChunkPlace): string =>
  `recordings/${clientId}/${sessionId}/${page}-${String(seq).padStart(4, "0")}`;

/** `events`: a list, as JSON. */
export const sealChunk = async (key: Buffer, place: ChunkPlace, events: string): Promise<Buffer> =>
  sealBytes(key, await pack(Buffer.from(events)), objectKeyOf(place));

/** Throws when it was changed or moved, or sealed under another key. */
export const unsealChunk = async (key: Buffer, place: ChunkPlace, sealed: Buffer): Promise<readonly unknown[]> => {
  const packed = unsealBytes(key, sealed, objectKeyOf(place));
  return JSON.parse((await unpack(packed, { maxOutputLength: MAX_BYTES })).toString("utf8"));
};

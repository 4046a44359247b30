// The id that answers a batch. It encodes the client, the receipt time and the numbers of accepted
// and rejected events, and a MAC proves that this installation made it.
import { timingSafeEqual } from "node:crypto";
import { derive, hmacOf } from "../../domain/hmac.ts";
import type { UnixMs } from "../../stream/flow.ts";

/** The answer that the sender of a batch received. */
export interface Batch {
  readonly client_id: number;
  readonly received_at: UnixMs;
  readonly accepted: number;
  readonly rejected: number;
  /** Accepted events without consent to analytics. They are counted but not stored. */
  readonly withheld: number;
  /** The tag that the batch's events carry: 20 hex digits that sort by time. */
  readonly tag: string;
}

/**
 * 1 format + 4 client + 6 time + 4 random + 2 accepted + 2 rejected + 2 withheld + 12 MAC = 33
 * bytes = 44 characters, without spare bits.
 */
const FORMAT = 1;
const CLIENT_AT = 1;
const TIME_AT = 5;
const RANDOM_AT = 11;
const ACCEPTED_AT = 15;
const REJECTED_AT = 17;
const WITHHELD_AT = 19;
const MAC_AT = 21;
const BYTES = 33;
const MAC_DIGITS = 2 * (BYTES - MAC_AT);
const TEXT = /^bat_([A-Za-z0-9_-]{44})$/;

export const batchIdKey = (secret: string): Buffer => derive(secret, `batch-id:${FORMAT}`);

/**
 * These buffers are reused for every batch; the functions that use them finish before the next
 * batch begins. A new Buffer.alloc each time would cost system memory and garbage collection.
 */
const tagged = Buffer.alloc(ACCEPTED_AT - TIME_AT);
const minted = Buffer.alloc(BYTES);

/**
 * The tag of a batch that arrives now. `random` holds 4 random bytes, which keep batches of the
 * same millisecond apart.
 */
export const batchTag = (receivedAt: UnixMs, random: Uint8Array): string => {
  if (random.length !== ACCEPTED_AT - RANDOM_AT) throw new RangeError("a batch takes 4 random bytes");
  tagged.writeUIntBE(receivedAt, 0, RANDOM_AT - TIME_AT);
  tagged.set(random, RANDOM_AT - TIME_AT);
  return tagged.toString("hex");
};

/** MAC functions by key. An installation has one key, plus older ones during a key change. */
const macs = new WeakMap<Buffer, ReturnType<typeof hmacOf>>();
const macOf = (head: Buffer, key: Buffer): Buffer => {
  const mac = macs.get(key) ?? hmacOf(key, MAC_AT);
  macs.set(key, mac);
  return Buffer.from(mac(head).slice(0, MAC_DIGITS), "hex");
};

/**
 * Makes the id of a batch of at most 65,535 events. Throws RangeError when a number does not fit
 * its field.
 */
export const mintBatchId = (batch: Omit<Batch, "received_at">, key: Buffer): string => {
  minted.writeUInt8(FORMAT, 0);
  minted.writeUInt32BE(batch.client_id, CLIENT_AT);
  minted.write(batch.tag, TIME_AT, "hex");
  minted.writeUInt16BE(batch.accepted, ACCEPTED_AT);
  minted.writeUInt16BE(batch.rejected, REJECTED_AT);
  minted.writeUInt16BE(batch.withheld, WITHHELD_AT);
  macOf(minted.subarray(0, MAC_AT), key).copy(minted, MAC_AT);
  return `bat_${minted.toString("base64url")}`;
};

/**
 * Decodes a batch id. Returns undefined if none of these keys made it, e.g. after a wrong format or
 * a changed bit. Compares MACs in constant time.
 */
export const readBatchId = (text: string, keys: readonly Buffer[]): Batch | undefined => {
  const body = TEXT.exec(text)?.[1];
  if (body === undefined) return undefined;
  const bytes = Buffer.from(body, "base64url");
  const [head, mac] = [bytes.subarray(0, MAC_AT), bytes.subarray(MAC_AT)];
  if (bytes[0] !== FORMAT || !keys.some((key) => timingSafeEqual(macOf(head, key), mac))) return undefined;
  return {
    client_id: bytes.readUInt32BE(CLIENT_AT),
    received_at: bytes.readUIntBE(TIME_AT, RANDOM_AT - TIME_AT),
    accepted: bytes.readUInt16BE(ACCEPTED_AT),
    rejected: bytes.readUInt16BE(REJECTED_AT),
    withheld: bytes.readUInt16BE(WITHHELD_AT),
    tag: bytes.toString("hex", TIME_AT, ACCEPTED_AT),
  };
};

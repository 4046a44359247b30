// Click ids that prove themselves: base64url(format, time, link id, 64 random bits, MAC). Reading
// one needs no store.
import { timingSafeEqual } from "node:crypto";
import type { UnixMs } from "../stream/flow.ts";
import { derive, hmacOf } from "./hmac.ts";

/**
 * A key for click ids. `format` is the first byte of the id. After a secret is rotated, several
 * keys may share a format, and a click id is valid if any of them made it.
 */
export interface ClickIdKey {
  readonly format: number;
  /** HMAC-SHA-256, in hex, of the bytes before the MAC. */
  readonly macOf: (head: Uint8Array) => string;
}
export interface Click {
  readonly link_id: number;
  /** When the link was clicked. Attribution windows start here. */
  readonly clicked_at: UnixMs;
}

/**
 * 1 format + 6 time + 4 link + 8 random + 14 MAC = 33 bytes = 44 characters. A multiple of three
 * has no spare bits that could change unnoticed.
 */
const TIME_AT = 1;
const LINK_AT = 7;
const RANDOM_AT = 11;
const MAC_AT = 19;
const BYTES = 33;
const TEXT = /^[A-Za-z0-9_-]{44}$/;

/** The key for a format byte (1 to 255). */
export const clickIdKey = (secret: string, format: number): ClickIdKey => ({
  format,
  macOf: hmacOf(derive(secret, `click-id:${format}`), MAC_AT),
});

const MAC_DIGITS = 2 * (BYTES - MAC_AT);
const macOf = (head: Buffer, key: ClickIdKey): Buffer => Buffer.from(key.macOf(head).slice(0, MAC_DIGITS), "hex");

/**
 * Makes a click id of 44 URL-safe characters. `random` holds 8 random bytes. Throws RangeError when
 * a number does not fit its field.
 */
export const mint = (linkId: number, at: UnixMs, random: Uint8Array, key: ClickIdKey): string => {
  if (random.length !== MAC_AT - RANDOM_AT) throw new RangeError("a click id takes 8 random bytes");
  const bytes = Buffer.alloc(BYTES);
  bytes.writeUInt8(key.format, 0);
  bytes.writeUIntBE(at, TIME_AT, LINK_AT - TIME_AT);
  bytes.writeUInt32BE(linkId, LINK_AT);
  bytes.set(random, RANDOM_AT);
  bytes.write(key.macOf(bytes.subarray(0, MAC_AT)).slice(0, MAC_DIGITS), MAC_AT, "hex");
  return bytes.toString("base64url");
};

/**
 * Decodes a click id. Undefined if it is not ours: wrong format, unknown key, or a changed bit.
 * Compares MACs in constant time.
 */
export const verify = (text: string, keys: readonly ClickIdKey[]): Click | undefined => {
  if (!TEXT.test(text)) return undefined;
  const bytes = Buffer.from(text, "base64url");
  const [head, mac] = [bytes.subarray(0, MAC_AT), bytes.subarray(MAC_AT)];
  if (!keys.some((key) => key.format === bytes[0] && timingSafeEqual(macOf(head, key), mac))) return undefined;
  return { link_id: bytes.readUInt32BE(LINK_AT), clicked_at: bytes.readUIntBE(TIME_AT, LINK_AT - TIME_AT) };
};

// HMACs: keys derived from the installation's one secret (HKDF, RFC 5869), each under its own fixed
// label; hashes under such a key; the check of a signature.
import { createHmac, hash, hkdfSync, timingSafeEqual } from "node:crypto";

const SALT = "tributary";
const KEY_BYTES = 32;

/**
 * Derives the key for a label. The same secret and label always give the same key. A label never
 * changes and never serves two purposes.
 */
export const derive = (secret: string, label: string): Buffer =>
  Buffer.from(hkdfSync("sha256", secret, SALT, label, KEY_BYTES));

const BLOCK_BYTES = 64;
const DIGEST_BYTES = 32;
const INNER_PAD = 0x36;
const OUTER_PAD = 0x5c;

/**
 * HMAC-SHA-256 (RFC 2104) under one key, in hex, computed with two plain hashes: an OpenSSL object
 * for each text costs twice as much plus garbage collection. Texts that are not `length` bytes long
 * use the normal HMAC.
 */
export const hmacOf = (key: Buffer, length: number): ((text: string | Uint8Array) => string) => {
  const usual = (text: string | Uint8Array): string => createHmac("sha256", key).update(text).digest("hex");
  if (key.length > BLOCK_BYTES) return usual;
  const inner = padded(key, INNER_PAD, length);
  const outer = padded(key, OUTER_PAD, DIGEST_BYTES);
  return (text) => {
    // A text with non-ASCII letters has more bytes than characters.
    if (text.length !== length || (typeof text === "string" && Buffer.byteLength(text) !== length)) return usual(text);
    if (typeof text === "string") inner.write(text, BLOCK_BYTES, "latin1");
    else inner.set(text, BLOCK_BYTES);
    outer.write(hash("sha256", inner, "hex"), BLOCK_BYTES, "hex");
    return hash("sha256", outer, "hex");
  };
};

const padded = (key: Buffer, pad: number, length: number): Buffer => {
  const bytes = Buffer.alloc(BLOCK_BYTES + length);
  for (let n = 0; n < BLOCK_BYTES; n += 1) bytes[n] = (key[n] ?? 0) ^ pad;
  return bytes;
};

const HEX = /^[0-9a-f]{64}$/;
const NONE = "0".repeat(64);

/**
 * True if `signature` is the hex HMAC-SHA256 (in either case) of exactly these bytes under the
 * secret. Every failed check takes the same steps, also without a secret, when `dummy` is used
 * instead. So the time taken does not reveal the reason.
 */
export const isSignatureOf = (
  bytes: Buffer,
  signature: string,
  secret: string | Buffer | undefined,
  dummy: string,
): boolean => {
  const text = signature.toLowerCase();
  const isHex = HEX.test(text);
  const given = Buffer.from(isHex ? text : NONE, "hex");
  const right = createHmac("sha256", secret ?? dummy)
    .update(bytes)
    .digest();
  return timingSafeEqual(right, given) && isHex && secret !== undefined;
};

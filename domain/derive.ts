// Derives every key of the system from the installation's one secret (HKDF, RFC 5869), each under
// its own fixed label, and computes HMACs with such keys.
import { createHmac, hash, hkdfSync } from "node:crypto";

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

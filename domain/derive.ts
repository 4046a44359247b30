// Every key of the system from the one secret of the installation (HKDF, RFC 5869), each under its
// own fixed label, and what is proven with such a key (HMAC).
import { createHmac, hash, hkdfSync } from "node:crypto";

const SALT = "tributary";
const KEY_BYTES = 32;

/**
 * The key of that label. The same secret and label always give the same key; a label is never
 * changed and never used for two things.
 */
export const derive = (secret: string, label: string): Buffer =>
  Buffer.from(hkdfSync("sha256", secret, SALT, label, KEY_BYTES));

const BLOCK_BYTES = 64;
const DIGEST_BYTES = 32;
const INNER_PAD = 0x36;
const OUTER_PAD = 0x5c;

/**
 * HMAC-SHA-256 (RFC 2104) under one key, in hex, by two plain hashes: an object of OpenSSL for each
 * text costs twice as much, and is collected later. A text that has not `length` bytes takes the
 * usual way.
 */
export const hmacOf = (key: Buffer, length: number): ((text: string | Uint8Array) => string) => {
  const usual = (text: string | Uint8Array): string => createHmac("sha256", key).update(text).digest("hex");
  if (key.length > BLOCK_BYTES) return usual;
  const inner = padded(key, INNER_PAD, length);
  const outer = padded(key, OUTER_PAD, DIGEST_BYTES);
  return (text) => {
    // Of a text with letters beyond ASCII the length in bytes is another one.
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

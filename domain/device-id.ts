// Identifiers as the log stores them: HMAC(pepper of the client, SHA-256(identifier)). Without the
// secret they cannot be guessed.
import { createHmac, hash } from "node:crypto";
import { derive, hmacOf } from "./hmac.ts";
import { memo } from "./memo.ts";
import type { Identify } from "./personal/identify.ts";

/** The number of hex digits in the SHA-256 that is hashed again with a pepper. */
const SHA256_HEX = 64;

/** The pepper of one client, so that the same device id at two clients gives different hashes. */
export const pepperOf = (secret: string, clientId: number): Buffer => derive(secret, `pepper:${clientId}`);

/** The second pepper. A hash made with it is the same for every client (consent bit 0x08). */
export const acrossPepperOf = (secret: string): Buffer => derive(secret, "pepper:across");

/**
 * Hashes the SHA-256 of an identifier (64 hex digits, lower case) with the pepper, for values that
 * a sender or browser already hashed.
 */
export const keyedHash = (pepper: Buffer, sha256Hex: string): string =>
  createHmac("sha256", pepper).update(sha256Hex).digest("hex");

/**
 * Hashes a plain device id, e-mail address or phone number to the 64 hex digits that the log
 * stores.
 */
export const identifierHash = (pepper: Buffer, identifier: string): string =>
  keyedHash(pepper, hash("sha256", identifier, "hex"));

/**
 * The two functions above for one client, with the latest `size` results cached: a device sends
 * many events, and two hashes cost more than the rest of its admission. `across` is the second
 * pepper, where identifiers may be linked across clients.
 */
export const identifyFor = (pepper: Buffer, size: number, across?: Buffer): Identify => {
  const hashed = hmacOf(pepper, SHA256_HEX);
  return {
    plain: memo(size, (identifier) => hashed(hash("sha256", identifier, "hex"))),
    hashed,
    across: across === undefined ? undefined : hmacOf(across, SHA256_HEX),
  };
};

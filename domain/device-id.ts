// Identifiers as the log keeps them: HMAC(pepper of the client, SHA-256(identifier)), so
// without the secret none can be guessed back.
import { createHmac, hash } from "node:crypto";
import { derive, hmacOf } from "./derive.ts";
import { memo } from "./memo.ts";
import type { Identify } from "./personal/identify.ts";

/** Digits of what is hashed again under a pepper. */
const SHA256_HEX = 64;

/** The pepper of one client: equal device ids of two clients never meet. */
export const pepperOf = (secret: string, clientId: number): Buffer => derive(secret, `pepper:${clientId}`);

/** The second pepper: what is hashed under it is the same for every client (0x08 of consent). */
export const acrossPepperOf = (secret: string): Buffer => derive(secret, "pepper:across");

/**
 * What SHA-256 (64 hex digits, lower case) of an identifier becomes: for whatever a sender or
 * browser hashed before.
 */
export const keyedHash = (pepper: Buffer, sha256Hex: string): string =>
  createHmac("sha256", pepper).update(sha256Hex).digest("hex");

/** A device id, e-mail or phone number in plain text, as the log keeps it: 64 hex digits. */
export const identifierHash = (pepper: Buffer, identifier: string): string =>
  keyedHash(pepper, hash("sha256", identifier, "hex"));

/**
 * The two functions above for one client, remembering the answers to the latest `size` identifiers:
 * a device sends many events, and two hashes cost more than the rest of its admission. `across`:
 * the second pepper, where identifiers may be linked across clients.
 */
export const identifyFor = (pepper: Buffer, size: number, across?: Buffer): Identify => {
  const hashed = hmacOf(pepper, SHA256_HEX);
  return {
    plain: memo(size, (identifier) => hashed(hash("sha256", identifier, "hex"))),
    hashed,
    across: across === undefined ? undefined : hmacOf(across, SHA256_HEX),
  };
};

// processors/device-id.ts - identifiers as the log keeps them: HMAC(pepper of the client, SHA-256(identifier)), so nobody without the secret can guess one back.
import { createHmac, hash } from "node:crypto";
import { derive } from "./derive.ts";

/** The pepper of one client: equal device ids of two clients never meet. */
export const pepperOf = (secret: string, clientId: number): Buffer => derive(secret, `pepper:${clientId}`);

/** What SHA-256 (64 hex digits, lower case) of an identifier becomes: for whatever a sender or browser hashed before. */
export const keyedHash = (pepper: Buffer, sha256Hex: string): string => createHmac("sha256", pepper).update(sha256Hex).digest("hex");

/** A device id, e-mail or phone number in plain text, as the log keeps it: 64 hex digits. */
export const identifierHash = (pepper: Buffer, identifier: string): string => keyedHash(pepper, hash("sha256", identifier, "hex"));

/**
 * The same, remembering the latest ones: a device sends many events, and two hashes cost more than the rest of its admission. Two generations
 * hold at most 2 * `generation` ids, however many a sender makes up; an id that is asked for again stays.
 */
export const identifierHasher = (pepper: Buffer, generation: number): ((identifier: string) => string) => {
  let young = new Map<string, string>();
  let old = new Map<string, string>();
  return (identifier) => {
    const known = young.get(identifier);
    if (known !== undefined) return known;
    const hashed = old.get(identifier) ?? identifierHash(pepper, identifier);
    if (young.size >= generation) {
      old = young;
      young = new Map();
    }
    young.set(identifier, hashed);
    return hashed;
  };
};

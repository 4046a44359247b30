// Seals secrets of others for the database with AES-256-GCM. The key derives from the
// installation's secret, and its fingerprint is stored with the value.
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { derive } from "../../../domain/hmac.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { fingerprintOf } from "./installation-secrets.ts";

const FORM = /^sealed:1:([0-9a-f]{16}):([A-Za-z0-9_-]+)$/;
const IV_BYTES = 12;
const TAG_BYTES = 16;
const CIPHER = "aes-256-gcm";

/** The value exists, but the secret that sealed it is missing. */
class CannotUnseal extends Error {
  readonly verdict = "fatal";
  constructor(place: string, why: string) {
    super(`${place} cannot be read: ${why}`);
    this.name = "CannotUnseal";
  }
}

const keyOf = (secret: string): Buffer => derive(secret, "seal:1");

/** Encrypts bytes with a 32-byte key. They can be decrypted only for the same place. */
export const sealBytes = (key: Buffer, bytes: Buffer, place: string): Buffer => {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv(CIPHER, key, iv).setAAD(Buffer.from(place));
  return Buffer.concat([iv, cipher.update(bytes), cipher.final(), cipher.getAuthTag()]);
};

/** Throws if the bytes were changed or moved, or sealed with another key. */
export const unsealBytes = (key: Buffer, sealed: Buffer, place: string): Buffer => {
  const decipher = createDecipheriv(CIPHER, key, sealed.subarray(0, IV_BYTES))
    .setAAD(Buffer.from(place))
    .setAuthTag(sealed.subarray(-TAG_BYTES));
  return Buffer.concat([decipher.update(sealed.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]);
};

/** `place` names the row and column; the value cannot be unsealed for any other place. */
export const seal = (text: string, place: string, { newest }: Keyring): string => {
  const sealed = sealBytes(keyOf(newest), Buffer.from(text), place);
  return `sealed:1:${fingerprintOf(newest)}:${sealed.toString("base64url")}`;
};

/** Returns the fingerprint that sealed a value; null: plain text of an earlier release. */
export const sealedUnder = (value: string): string | null => FORM.exec(value)?.[1] ?? null;

/** True for a value that the newest secret has not sealed, plain text included. */
export const isOld = (value: string | null, { newest }: Keyring): boolean =>
  value !== null && sealedUnder(value) !== fingerprintOf(newest);

/**
 * Returns the text. Values that a release without sealing stored are plain text and returned as
 * they are. Throws CannotUnseal if no accepted secret sealed the value, or if it was changed or
 * moved.
 */
export const unseal = (value: string, place: string, { accepted }: Keyring): string => {
  const [, fingerprint, body] = FORM.exec(value) ?? [];
  if (fingerprint === undefined || body === undefined) return value;
  const secret = accepted.find((one) => fingerprintOf(one) === fingerprint);
  if (secret === undefined)
    throw new CannotUnseal(
      place,
      `it was sealed under the secret ${fingerprint}, which TRIBUTARY_SECRET does not list: put that one back and ` +
        "run tributary secrets rotate --yes before it goes",
    );
  try {
    return unsealBytes(keyOf(secret), Buffer.from(body, "base64url"), place).toString("utf8");
  } catch {
    throw new CannotUnseal(place, "it was changed, or moved from another row");
  }
};

// Secrets of others as the database keeps them: under AES-256-GCM, with a key that derives from the
// secret of the installation and is named beside them.
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { derive } from "../../../domain/derive.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { fingerprintOf } from "./installation-secrets.ts";

const FORM = /^sealed:1:([0-9a-f]{16}):([A-Za-z0-9_-]+)$/;
const IV_BYTES = 12;
const TAG_BYTES = 16;
const CIPHER = "aes-256-gcm";

/** The value is there, and the secret that it was sealed under is not. */
class CannotUnseal extends Error {
  readonly verdict = "fatal";
  constructor(place: string, why: string) {
    super(`${place} cannot be read: ${why}`);
    this.name = "CannotUnseal";
  }
}

const keyOf = (secret: string): Buffer => derive(secret, "seal:1");

/** The bytes under a key of 32 bytes; at any other place they cannot be read. */
export const sealBytes = (key: Buffer, bytes: Buffer, place: string): Buffer => {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv(CIPHER, key, iv).setAAD(Buffer.from(place));
  return Buffer.concat([iv, cipher.update(bytes), cipher.final(), cipher.getAuthTag()]);
};

/** Throws when they were changed or moved, or sealed under another key. */
export const unsealBytes = (key: Buffer, sealed: Buffer, place: string): Buffer => {
  const decipher = createDecipheriv(CIPHER, key, sealed.subarray(0, IV_BYTES))
    .setAAD(Buffer.from(place))
    .setAuthTag(sealed.subarray(-TAG_BYTES));
  return Buffer.concat([decipher.update(sealed.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]);
};

/** `place` names row and column: at any other place the value cannot be read. */
export const seal = (text: string, place: string, { newest }: Keyring): string => {
  const sealed = sealBytes(keyOf(newest), Buffer.from(text), place);
  return `sealed:1:${fingerprintOf(newest)}:${sealed.toString("base64url")}`;
};

/** The fingerprint that a value was sealed under; null: it is plain text of an earlier release. */
export const sealedUnder = (value: string): string | null => FORM.exec(value)?.[1] ?? null;

/**
 * The text. Plain text, as releases before sealing stored it, is its own. Throws CannotUnseal when
 * none of the secrets is the one it was sealed under, or when it was changed or moved.
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

// Whether bytes bear the signature of a client, by its secret as it is now.
import { randomBytes } from "node:crypto";
import type pg from "pg";
import { isSignatureOf } from "../../../domain/signature.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { clientSecretsOf } from "./client-secrets.ts";
import { openFresh, remembering } from "./fresh-answers.ts";

export interface SignatureCheck {
  /**
   * Whether `signature` is the hex HMAC-SHA256 of the bytes under the client's secret. Every no
   * takes the same steps: an unknown client, one without a secret, a signature of another form.
   * Throws CannotUnseal, and what Postgres throws.
   */
  readonly isSigned: (clientId: number, bytes: Buffer, signature: string | undefined) => Promise<boolean>;
  /** The secret was replaced by this process: from now on it asks for the new one. */
  readonly forget: (clientId: number) => void;
}

export const openSigning = (pool: pg.Pool, keyring: Keyring): SignatureCheck => {
  const secrets = openFresh(async (clients) => {
    const stored = await clientSecretsOf(pool, clients, keyring);
    return new Map([...stored].map(([id, unseal]) => [id, remembering(unseal)]));
  });
  /** In place of the secret that an unknown client lacks. */
  const dummy = randomBytes(32).toString("hex");
  return {
    isSigned: async (clientId, bytes, signature = "") =>
      isSignatureOf(bytes, signature, (await secrets.of(clientId))?.(), dummy),
    forget: secrets.forget,
  };
};

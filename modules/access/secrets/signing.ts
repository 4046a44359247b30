// Verifies signatures with the current secret of a client.
import { randomBytes } from "node:crypto";
import type pg from "pg";
import { isSignatureOf } from "../../../domain/hmac.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { clientSecretsOf } from "./client-secrets.ts";
import { openFresh, remembering } from "./fresh-answers.ts";

export interface SignatureCheck {
  /**
   * Checks that `signature` is the hex HMAC-SHA256 of the bytes under the client's secret. An
   * unknown client, a client without a secret and a malformed signature take the same steps as a
   * wrong one. Throws CannotUnseal and errors of Postgres.
   */
  readonly isSigned: (clientId: number, bytes: Buffer, signature: string | undefined) => Promise<boolean>;
  /** This process replaced the secret, so the next check reads the new one. */
  readonly forget: (clientId: number) => void;
}

export const openSigning = (pool: pg.Pool, keyring: Keyring): SignatureCheck => {
  const secrets = openFresh(async (clients) => {
    const stored = await clientSecretsOf(pool, clients, keyring);
    return new Map([...stored].map(([id, unseal]) => [id, remembering(unseal)]));
  });
  /** Replaces the missing secret of an unknown client. */
  const dummy = randomBytes(32).toString("hex");
  return {
    isSigned: async (clientId, bytes, signature = "") => {
      const isNow = async () => isSignatureOf(bytes, signature, (await secrets.of(clientId))?.(), dummy);
      if (await isNow()) return true;
      await secrets.renew(clientId);
      return isNow();
    },
    forget: secrets.forget,
  };
};

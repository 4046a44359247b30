// The token that stores the parts of one upload. It is derived from the installation's secret
// whenever it is shown, so only its hash is stored.
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { derive } from "../../../../domain/hmac.ts";
import type { Keyring } from "../../../../infra/runtime/keyring.ts";

const hashOf = (token: string): Buffer => createHash("sha256").update(token).digest();
const tokenOf = (secret: string, seed: string): string =>
  `trb_part_${createHmac("sha256", derive(secret, "upload.token")).update(seed).digest("base64url")}`;

export const hashOfNewToken = ({ newest }: Keyring, seed: string): Buffer => hashOf(tokenOf(newest, seed));

/** The token of an upload; undefined if its secret is no longer accepted. */
export const tokenOfUpload = (
  { accepted }: Keyring,
  { seed, token_sha256 }: { readonly seed: string; readonly token_sha256: Buffer },
): string | undefined =>
  accepted.map((secret) => tokenOf(secret, seed)).find((token) => hashOf(token).equals(token_sha256));

export const isTokenOf = (given: string, token_sha256: Buffer): boolean => timingSafeEqual(hashOf(given), token_sha256);

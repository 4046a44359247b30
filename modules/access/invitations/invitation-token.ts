// Tokens of invitations. A token is derived from the installation's secret when its mail is sent,
// so only its hash is stored.
import { createHash, createHmac, randomUUID } from "node:crypto";
import { derive } from "../../../domain/hmac.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";

export const invitationToken = /^trb_invitation_[A-Za-z0-9_-]{43}$/;
export const hashOfToken = (token: string): Buffer => createHash("sha256").update(token).digest();

const tokenOf = (secret: string, seed: string): string =>
  `trb_invitation_${createHmac("sha256", derive(secret, "invitation.token")).update(seed).digest("base64url")}`;

export const newInvitationToken = ({ newest }: Keyring): { readonly seed: string; readonly sha256: Buffer } => {
  const seed = randomUUID();
  return { seed, sha256: hashOfToken(tokenOf(newest, seed)) };
};

/** Returns the token with this hash; undefined if its secret is no longer accepted. */
export const tokenOfSeed = ({ accepted }: Keyring, seed: string, sha256: Buffer): string | undefined =>
  accepted.map((secret) => tokenOf(secret, seed)).find((token) => hashOfToken(token).equals(sha256));

// Whether a payload bears the signature of its source, in either of two schemes: X-Svc-Signature,
// or the three headers of Standard Webhooks.
import { isSignatureOf } from "../../domain/signature.ts";
import type { UnixMs } from "../../stream/flow.ts";

interface SignedPayload {
  readonly bytes: Buffer;
  readonly header: (name: string) => string | undefined;
  readonly receivedAt: UnixMs;
}

const TOLERANCE_SEC = 300;
const MOST_SIGNATURES = 10;
/** A secret in the form of Standard Webhooks stands for the bytes behind its prefix. */
const PREFIX = "whsec_";
const BASE64 = /^v1,([A-Za-z0-9+/]{43}=)$/;

export const isSignedPayload = ({ bytes, header, receivedAt }: SignedPayload, secret: string): boolean => {
  const key = secret.startsWith(PREFIX) ? Buffer.from(secret.slice(PREFIX.length), "base64") : secret;
  const own = header("x-svc-signature");
  if (own !== undefined) return isSignatureOf(bytes, own, key, "");
  const [id, at, signatures] = [header("webhook-id"), header("webhook-timestamp"), header("webhook-signature")];
  if (id === undefined || at === undefined || signatures === undefined || !/^\d{1,12}$/.test(at)) return false;
  if (Math.abs(receivedAt / 1_000 - Number(at)) > TOLERANCE_SEC) return false;
  const signed = Buffer.concat([Buffer.from(`${id}.${at}.`), bytes]);
  return signatures
    .split(" ", MOST_SIGNATURES)
    .flatMap((one) => BASE64.exec(one)?.[1] ?? [])
    .some((one) => isSignatureOf(signed, Buffer.from(one, "base64").toString("hex"), key, ""));
};

// Verifies the signature of a payload by its source, in one of two schemes: X-Svc-Signature, or the
// three headers of Standard Webhooks.
import { isSignatureOf } from "../../../domain/hmac.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { KnownSource, OpenSources } from "./source-picture.ts";

interface SignedPayload {
  readonly bytes: Buffer;
  readonly header: (name: string) => string | undefined;
  readonly receivedAt: UnixMs;
}

const TOLERANCE_SEC = 300;
const MOST_SIGNATURES = 10;
export const SECRET_PREFIX = "whsec_";
const BASE64 = /^v1,([A-Za-z0-9+/]{43}=)$/;

/** The bytes that a Standard Webhooks secret encodes; undefined: the secret is plain text. */
export const keyBytesOf = (secret: string): Buffer | undefined =>
  secret.startsWith(SECRET_PREFIX) ? Buffer.from(secret.slice(SECRET_PREFIX.length), "base64") : undefined;

/**
 * Checks a payload of a source that signs, also under a secret that was saved just now. Returns the
 * source as it is known now, or undefined.
 */
export const signingSource = async (
  sources: Pick<OpenSources, "again" | "byId">,
  source: KnownSource,
  payload: SignedPayload,
): Promise<KnownSource | undefined> => {
  const isSigned = (one: KnownSource | undefined): boolean => {
    const secret = one?.secret();
    return secret !== undefined && isSignedPayload(payload, secret);
  };
  if (isSigned(source)) return source;
  await sources.again();
  const newer = sources.byId(source.source_id);
  return newer !== source && newer?.state === "active" && isSigned(newer) ? newer : undefined;
};

const isSignedPayload = ({ bytes, header, receivedAt }: SignedPayload, secret: string): boolean => {
  const key = keyBytesOf(secret) ?? secret;
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

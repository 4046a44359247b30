// Verifies the signature of a payload by its source, in one of two schemes: X-Svc-Signature, or the
// three headers of Standard Webhooks.
import { isSignatureOf } from "../../../domain/hmac.ts";
import { Unavailable } from "../../../infra/runtime/errors.ts";
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
const SVC_SIGNATURE = /^[0-9a-f]{64}$/i;
const BASE64 = /^v1,([A-Za-z0-9+/]{43}=)$/;

/** The bytes that a Standard Webhooks secret encodes; undefined: the secret is plain text. */
export const keyBytesOf = (secret: string): Buffer | undefined =>
  secret.startsWith(SECRET_PREFIX) ? Buffer.from(secret.slice(SECRET_PREFIX.length), "base64") : undefined;

/**
 * Checks a payload of a source that signs, also under a secret that was saved just now. Returns the
 * source as it is known now, or undefined. Throws Unavailable if a newer secret cannot be looked
 * up.
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
  if (!bearsSignature(payload)) return undefined;
  const isAsked = await sources.again();
  const newer = sources.byId(source.source_id);
  if (newer !== source && newer?.state === "active" && isSigned(newer)) return newer;
  if (!isAsked) throw new Unavailable("signatures cannot be checked now: send it again", 2);
  return undefined;
};

/** Whether any secret could fit: what is malformed is refused without a look-up. */
const bearsSignature = (payload: SignedPayload): boolean => {
  const own = payload.header("x-svc-signature");
  return own === undefined ? signaturesIn(payload) !== undefined : SVC_SIGNATURE.test(own);
};

const isSignedPayload = ({ bytes, header, receivedAt }: SignedPayload, secret: string): boolean => {
  const key = keyBytesOf(secret) ?? secret;
  const own = header("x-svc-signature");
  if (own !== undefined) return isSignatureOf(bytes, own, key, "");
  const standard = signaturesIn({ header, receivedAt });
  if (standard === undefined) return false;
  const signed = Buffer.concat([Buffer.from(standard.signedBefore), bytes]);
  return standard.signatures.some((one) => isSignatureOf(signed, Buffer.from(one, "base64").toString("hex"), key, ""));
};

/** The signatures in the headers of Standard Webhooks; undefined: none, or of another time. */
const signaturesIn = ({ header, receivedAt }: Omit<SignedPayload, "bytes">) => {
  const [id, at, given] = [header("webhook-id"), header("webhook-timestamp"), header("webhook-signature")];
  if (id === undefined || at === undefined || given === undefined || !/^\d{1,12}$/.test(at)) return undefined;
  if (Math.abs(receivedAt / 1_000 - Number(at)) > TOLERANCE_SEC) return undefined;
  const signatures = given.split(" ", MOST_SIGNATURES).flatMap((one) => BASE64.exec(one)?.[1] ?? []);
  return signatures.length === 0 ? undefined : { signatures, signedBefore: `${id}.${at}.` };
};

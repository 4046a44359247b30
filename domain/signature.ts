// Whether bytes bear the signature of the one who knows a secret.
import { createHmac, timingSafeEqual } from "node:crypto";

const HEX = /^[0-9a-f]{64}$/;
const NONE = "0".repeat(64);

/**
 * Whether `signature` is the hex HMAC-SHA256 of exactly these bytes under the secret, in capital
 * letters or small. Every no takes the same steps, also without a secret, which `dummy` stands for
 * then: how long it took says nothing of why.
 */
export const isSignatureOf = (
  bytes: Buffer,
  signature: string,
  secret: string | Buffer | undefined,
  dummy: string,
): boolean => {
  const text = signature.toLowerCase();
  const isHex = HEX.test(text);
  const given = Buffer.from(isHex ? text : NONE, "hex");
  const right = createHmac("sha256", secret ?? dummy)
    .update(bytes)
    .digest();
  return timingSafeEqual(right, given) && isHex && secret !== undefined;
};

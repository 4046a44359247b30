// Verifies HMAC signatures.
import { createHmac, timingSafeEqual } from "node:crypto";

const HEX = /^[0-9a-f]{64}$/;
const NONE = "0".repeat(64);

/**
 * True if `signature` is the hex HMAC-SHA256 (in either case) of exactly these bytes under the
 * secret. Every failed check takes the same steps, also without a secret, when `dummy` is used
 * instead. So the time taken does not reveal the reason.
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

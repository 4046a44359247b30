// Every key of the system from the one secret of the installation (HKDF, RFC 5869), each under its
// own fixed label.
import { hkdfSync } from "node:crypto";

const SALT = "tributary";
const KEY_BYTES = 32;

/**
 * The key of that label. The same secret and label always give the same key; a label is never
 * changed and never used for two things.
 */
export const derive = (secret: string, label: string): Buffer =>
  Buffer.from(hkdfSync("sha256", secret, SALT, label, KEY_BYTES));

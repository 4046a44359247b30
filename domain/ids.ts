// Deterministic ids: UUIDs computed from the parts that identify a thing.
import { hash } from "node:crypto";

/**
 * A UUID (version 8 of RFC 9562, "custom") from the SHA-256 of its parts. Each part is prefixed
 * with its length, so ("ab", "c") and ("a", "bc") differ. A number counts as its decimal text. This
 * must never change: ids in the log depend on it.
 */
export const uuidOf = (...parts: readonly (string | number)[]): string => {
  let text = "";
  for (const part of parts) {
    const piece = typeof part === "string" ? part : String(part);
    text += `${piece.length}:${piece}`;
  }
  const hex = hash("sha256", text, "hex");
  const variant = VARIANT[hex.charCodeAt(16) & 3];
  const [first, second, third] = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(13, 16)];
  return `${first}-${second}-8${third}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
};
/** RFC 9562 fixes two bits of this digit, so four values are left. */
const VARIANT = "89ab";

/** The allowed form of a sender's event id. */
export const EVENT_ID = /^[A-Za-z0-9._:-]{1,128}$/;

/**
 * Two clients may use the same event id, so the client is part of the hash. One client must not use
 * an id for two events.
 */
export const sentEventId = (clientId: number, senderEventId: string): string => uuidOf(clientId, senderEventId);

/**
 * The id of the n-th record that a stage makes from one input. It is the same however often it is
 * computed.
 */
export const derivedId = (stage: string, inputId: string, output: string, n: number): string =>
  uuidOf(stage, inputId, output, n);

/**
 * Ids such as `cnv_...` (docs/design/contracts.md, "Answers"): the prefix, then the 32 digits of
 * the UUID.
 */
export const prefixed = (prefix: string, uuid: string): string => `${prefix}_${uuid.replaceAll("-", "")}`;

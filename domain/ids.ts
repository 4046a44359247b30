// Ids that say nothing but come out the same every time: UUIDs made of the parts that make a thing
// what it is.
import { hash } from "node:crypto";

/**
 * A UUID (version 8 of RFC 9562, "custom") from the SHA-256 of its parts. Each part is written with
 * its length in front, so ("ab", "c") and ("a", "bc") differ; a number counts as its decimal text.
 * Equal parts, equal UUID, for ever: ids in the log depend on it.
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
/** The two fixed bits of RFC 9562 leave two free ones in this digit. */
const VARIANT = "89ab";

/** What a sender may use as the id of an event. */
export const EVENT_ID = /^[A-Za-z0-9._:-]{1,128}$/;

/** Two clients may send the same event id; the same client may not mean two events by it. */
export const sentEventId = (clientId: number, senderEventId: string): string => uuidOf(clientId, senderEventId);

/**
 * The id of the n-th record that a stage makes of one input: the same whenever, wherever and
 * however often it is made.
 */
export const derivedId = (stage: string, inputId: string, output: string, n: number): string =>
  uuidOf(stage, inputId, output, n);

/**
 * `cnv_` and its kin (docs/design/contracts.md, "Answers"): the kind, then the 32 digits of the
 * UUID.
 */
export const prefixed = (prefix: string, uuid: string): string => `${prefix}_${uuid.replaceAll("-", "")}`;

// Cleans the data that a page passes to the script: limited in size, plain values only, and no
// personal data in plain text.
import { isPersonalKey } from "../../domain/personal/personal-data.ts";
import { personalForm } from "../../domain/personal/personal-form.ts";
import { withoutEmails } from "./emails.ts";
import { sha256 } from "./sha256.ts";

const MAX_DEPTH = 8;
const MAX_KEYS = 200;
const MAX_TEXT = 8_192;
/**
 * The most characters of one event; a value that is no text counts as 16. Everything beyond that is
 * left out.
 */
const MAX_SIZE = 65_536;
const FORBIDDEN = /^(__proto__|constructor|prototype)$/;
const HASHED = /^[0-9a-f]{64}$/i;

/**
 * Removes e-mail addresses from a text. A hash of them without a key would stay in the log, and an
 * erasure looks only for keyed hashes.
 */
export const cleanText = (text: string): string => withoutEmails(text.slice(0, MAX_TEXT));

/**
 * The value of a personal key (domain/personal) is sent as SHA-256 of its normal form, which the
 * server computes too; the server then keys it. Lists and objects are not sent.
 */
const hashed = (key: string, value: unknown): unknown => {
  const given = typeof value === "string" || typeof value === "number" ? `${value}`.trim() : "";
  // A lone surrogate has no form in UTF-8.
  const text = given.replace(/[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]/g, (at) => (at[1] ? at : "\ufffd"));
  if (text === "") return undefined;
  const kind = key.toLowerCase().replace(/[_-]|sha256/g, "");
  return HASHED.test(text) ? text.toLowerCase() : sha256(personalForm(kind, text));
};

let left = 0;
/** Undefined if JSON has no form for the value, or if the event has no more room. */
const cleaned = (value: unknown, depth: number): unknown => {
  left -= typeof value === "string" ? value.length : 16;
  if (left < 0) return undefined;
  if (typeof value === "string") return cleanText(value);
  if (typeof value === "bigint") return `${value}`;
  if (typeof value !== "object" || value === null) return value;
  if (depth > MAX_DEPTH) return undefined;
  if (value instanceof Date) return Number.isNaN(+value) ? undefined : value.toISOString();
  if (Array.isArray(value)) return value.slice(0, MAX_KEYS).map((item) => cleaned(item, depth + 1));
  const copy: Record<string, unknown> = {};
  for (const key of Object.keys(value).slice(0, MAX_KEYS))
    if (!FORBIDDEN.test(key) && left > 0) {
      const held = (value as Readonly<Record<string, unknown>>)[key];
      copy[cleanText(key)] = isPersonalKey(key) ? hashed(key, held) : cleaned(held, depth + 1);
    }
  return copy;
};

/** The props of an event; `{}` if they are no object. */
export const cleanProps = (props: unknown): Record<string, unknown> => {
  left = MAX_SIZE;
  const isObject = typeof props === "object" && !Array.isArray(props);
  return (isObject ? (cleaned(props, 1) as Record<string, unknown>) : undefined) || {};
};

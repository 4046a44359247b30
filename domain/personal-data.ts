// Finds personal data in what senders write and replaces it by keyed hashes, before anything
// reaches the log.
import type { Identify } from "./device-id.ts";

/**
 * Keys whose values are personal at any depth and in any case (docs/design/contracts.md, "Personal
 * data"), written without `_` and `-`.
 */
const PERSONAL: ReadonlySet<string> = new Set(["email", "phone", "firstname", "lastname", "name", "address"]);
const plainKey = (key: string): string => key.toLowerCase().replaceAll(/[_-]/g, "");

export const isPersonalKey = (key: string): boolean => key.length <= 32 && PERSONAL.has(plainKey(key));

const SHA256_HEX = /^[0-9a-f]{64}$/i;

/** What makes two spellings one value; the pixel does the same before it hashes in the browser. */
const normalised = (kind: string, text: string): string => {
  const trimmed = text.normalize("NFC").trim().toLowerCase();
  return kind === "phone" ? trimmed.replaceAll(/[^\d+]/g, "") : trimmed.replaceAll(/\s+/g, " ");
};

/**
 * A replacement, and whether anything was there in plain text (a value that was hashed before, only
 * gets its key).
 */
export interface Scrubbed<T> {
  readonly value: T;
  readonly wasPlain: boolean;
}

/**
 * 64 characters before the @ (RFC 5321), 253 behind it: bounds the work on a text made of nothing
 * else.
 */
const LOCAL_LENGTH = 64;
const DOMAIN_LENGTH = 253;
const isLocal = (code: number): boolean => isDomain(code) || code === 95 || code === 37 || code === 43; // _ % +
const isDomain = (code: number): boolean =>
  (code >= 48 && code <= 57) ||
  (code >= 65 && code <= 90) ||
  (code >= 97 && code <= 122) ||
  code === 45 ||
  code === 46 ||
  code > 127; // - .
const TOP_LEVEL = /\.[^\d.-][^.]+$/;
/** logo@2x.png is a picture for dense screens, not somebody's address. */
const DENSE_IMAGE = /^\dx\.(png|jpe?g|webp|gif|svg|avif)$/i;

/**
 * Replaces whatever is shaped like an e-mail inside a text (a whole value, or a parameter of a URL,
 * where @ may be %40) by its hash.
 */
export const scrubText = (text: string, identify: Identify): Scrubbed<string> => {
  let done = "";
  let from = 0;
  for (let at = nextAt(text, 0); at !== undefined; at = nextAt(text, at.end)) {
    let start = at.start;
    while (start > from && at.start - start < LOCAL_LENGTH && isLocal(text.charCodeAt(start - 1))) start -= 1;
    let end = at.end;
    while (end < text.length && end - at.end < DOMAIN_LENGTH && isDomain(text.charCodeAt(end))) end += 1;
    while (end > at.end && (text[end - 1] === "." || text[end - 1] === "-")) end -= 1;
    const domain = text.slice(at.end, end);
    if (start === at.start || !TOP_LEVEL.test(domain) || DENSE_IMAGE.test(domain)) continue;
    done += text.slice(from, start) + identify.plain(normalised("email", `${text.slice(start, at.start)}@${domain}`));
    from = end;
  }
  return from === 0 ? { value: text, wasPlain: false } : { value: done + text.slice(from), wasPlain: true };
};

const nextAt = (text: string, from: number): { start: number; end: number } | undefined => {
  const plain = text.indexOf("@", from);
  const escaped = text.indexOf("%40", from);
  if (plain < 0 && escaped < 0) return undefined;
  return escaped < 0 || (plain >= 0 && plain < escaped)
    ? { start: plain, end: plain + 1 }
    : { start: escaped, end: escaped + 3 };
};

/**
 * The same JSON value with personal data replaced: everything under a personal key, and e-mails
 * wherever they stand. Keys have been checked before.
 */
export const scrub = (value: unknown, identify: Identify): Scrubbed<unknown> => {
  let wasPlain = false;
  const visit = (part: unknown, kind: string | null): unknown => {
    if (typeof part === "string" || (typeof part === "number" && kind !== null)) {
      const text = String(part);
      if (kind === null) {
        const scrubbed = scrubText(text, identify);
        wasPlain ||= scrubbed.wasPlain;
        return scrubbed.value;
      }
      if (text.trim() === "") return part;
      if (SHA256_HEX.test(text)) return identify.hashed(text.toLowerCase());
      wasPlain = true;
      return identify.plain(normalised(kind, text));
    }
    if (Array.isArray(part)) return part.map((item) => visit(item, kind));
    if (typeof part !== "object" || part === null) return part;
    const copy: Record<string, unknown> = {};
    // a key may be somebody's address too
    for (const [key, held] of Object.entries(part))
      copy[visit(key, null) as string] = visit(held, isPersonalKey(key) ? plainKey(key) : kind);
    return copy;
  };
  const replaced = visit(value, null);
  return { value: replaced, wasPlain };
};

// Finds personal data in what senders write and replaces it with keyed hashes before anything
// reaches the log.
import type { Identify } from "./identify.ts";
import { MAX_FORMED, personalForm, personalForms } from "./personal-form.ts";

/**
 * Keys whose values are personal at any depth and in any case (docs/design/contracts.md, "Personal
 * data"), written without `_` and `-`.
 */
const PERSONAL: ReadonlySet<string> = new Set([
  ...["email", "phone", "firstname", "lastname", "name", "address"],
  // Senders use these names for values that they hashed themselves; such values are hashed again
  // with the key.
  ...["emailsha256", "phonesha256"],
]);
const plainKey = (key: string): string => key.toLowerCase().replace(/[_-]/g, "");

export const isPersonalKey = (key: string): boolean => key.length <= 32 && PERSONAL.has(plainKey(key));

const SHA256_HEX = /^[0-9a-f]{64}$/i;

/**
 * The scrubbed value. `wasPlain` is true if it contained plain text, and false if it only contained
 * hashes.
 */
export interface ScrubResult<T> {
  readonly value: T;
  readonly wasPlain: boolean;
}

/**
 * RFC 5321 allows 64 characters before the @ and 253 after it. The limits bound the work on a text
 * that consists only of such characters.
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
/** logo@2x.png is an image for high-density screens, not an address. */
const DENSE_IMAGE = /^\dx\.(png|jpe?g|webp|gif|svg|avif)$/i;

/**
 * Each e-mail address costs a keyed hash (2.5 us) and becomes 64 characters, so their number is
 * limited. No honest event comes near the limit.
 */
const MAX_EMAILS = 1_000;
/**
 * The total length of all e-mail addresses and personal values. Normalising costs up to 1.6 us a
 * character. No honest event comes near the limit.
 */
const MAX_FORMED_OF_VALUE = 32_768;
/**
 * One value contains more personal data than the limits allow, so the event is refused. The message
 * names the limit and the remedy.
 */
export class TooMuchPersonalData extends Error {}

/** The part of the limits that one value has used so far. */
interface ScrubCost {
  emails: number;
  formed: number;
}
const countFormed = (found: ScrubCost, { length }: string): void => {
  if (length <= MAX_FORMED) found.formed += length;
  if (found.formed <= MAX_FORMED_OF_VALUE) return;
  const detail = `the event holds more than ${MAX_FORMED_OF_VALUE} characters of personal data: send less`;
  throw new TooMuchPersonalData(detail);
};

/**
 * Replaces everything that looks like an e-mail address in a text with its hash. The text may also
 * be a URL, where @ may be %40. Throws TooMuchPersonalData.
 */
export const scrubText = (
  text: string,
  identify: Identify,
  found: ScrubCost = { emails: 0, formed: 0 },
): ScrubResult<string> => {
  const done: string[] = [];
  let from = 0;
  for (const at of atSigns(text)) {
    let start = at.start;
    while (start > from && at.start - start < LOCAL_LENGTH && isLocal(text.charCodeAt(start - 1))) start -= 1;
    let end = at.end;
    while (end < text.length && end - at.end < DOMAIN_LENGTH && isDomain(text.charCodeAt(end))) end += 1;
    while (end > at.end && (text[end - 1] === "." || text[end - 1] === "-")) end -= 1;
    const domain = text.slice(at.end, end);
    if (start === at.start || !TOP_LEVEL.test(domain) || DENSE_IMAGE.test(domain)) continue;
    found.emails += 1;
    if (found.emails > MAX_EMAILS)
      throw new TooMuchPersonalData(`a text of the event holds more than ${MAX_EMAILS} e-mail addresses: send fewer`);
    const email = `${unescaped(text.slice(start, at.start))}@${domain}`;
    countFormed(found, email);
    done.push(text.slice(from, start), identify.plain(personalForm("email", email)));
    from = end;
  }
  return from === 0 ? { value: text, wasPlain: false } : { value: done.join("") + text.slice(from), wasPlain: true };
};

/** In a URL, the + of an address may be written %2B; both are the same address. */
const unescaped = (local: string): string => {
  if (!local.includes("%")) return local;
  try {
    return decodeURIComponent(local);
  } catch {
    return local;
  }
};

/**
 * Every hash under which the log may hold an e-mail address or phone number: of the current normal
 * form and of all earlier ones. A value that is already a SHA-256 (64 hex digits) is only hashed
 * with the key.
 */
export const personalHashes = (kind: "email" | "phone", value: string, identify: Identify): readonly string[] => {
  const given = value.trim();
  if (SHA256_HEX.test(given)) return [identify.hashed(given.toLowerCase())];
  // Before form 2, addresses in URLs were hashed with their escapes.
  const escaped = kind === "email" ? given.replace(/^[^@]*/, encodeURIComponent) : given;
  const forms = [...personalForms(kind, given), ...personalForms(kind, escaped)];
  return [...new Set(forms)].map(identify.plain);
};

/**
 * Yields the positions of @ and %40 in order. Each search continues from its last hit, so the time
 * is linear in the text.
 */
const atSigns = function* (text: string): Generator<{ readonly start: number; readonly end: number }> {
  let plain = text.indexOf("@");
  let escaped = text.indexOf("%40");
  while (plain >= 0 || escaped >= 0)
    if (escaped < 0 || (plain >= 0 && plain < escaped)) {
      yield { start: plain, end: plain + 1 };
      plain = text.indexOf("@", plain + 1);
    } else {
      yield { start: escaped, end: escaped + 3 };
      escaped = text.indexOf("%40", escaped + 3);
    }
};

/** JSON with sorted keys, so equal content gives equal text. `leaf` writes the texts. */
const canonical = (value: unknown, leaf: (text: string) => string): string => {
  if (Array.isArray(value)) return `[${value.map((item) => canonical(item, leaf)).join(",")}]`;
  if (typeof value === "object" && value !== null)
    return `{${Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
      .map(([key, held]) => `${JSON.stringify(key)}:${canonical(held, leaf)}`)
      .join(",")}}`;
  return JSON.stringify(typeof value === "string" ? leaf(value) : value);
};
const isEmpty = (value: object): boolean => Object.keys(value).length === 0;

/**
 * Returns the same JSON value with personal data replaced: a list or object under a personal key
 * becomes one hash of its canonical text, and e-mail addresses are replaced anywhere. Keys were
 * checked before. Throws TooMuchPersonalData.
 */
export const scrub = (value: unknown, identify: Identify): ScrubResult<unknown> => {
  const found: ScrubCost = { emails: 0, formed: 0 };
  let wasPlain = false;
  const text = (part: string): string => {
    const scrubbed = scrubText(part, identify, found);
    wasPlain ||= scrubbed.wasPlain;
    return scrubbed.value;
  };
  const personal = (part: unknown, kind: string): unknown => {
    if (part === null || typeof part === "boolean" || (typeof part === "object" && isEmpty(part))) return part;
    const plain = typeof part === "object" ? canonical(part, (held) => held) : String(part);
    if (plain.trim() === "") return part;
    if (SHA256_HEX.test(plain)) return identify.hashed(plain.toLowerCase());
    wasPlain = true;
    countFormed(found, plain);
    if (typeof part !== "object") return identify.plain(personalForm(kind, plain));
    // Each text inside is normalised as if it stood alone, unless the whole is too long for that.
    const isLong = plain.length > MAX_FORMED;
    return identify.plain(isLong ? plain.toLowerCase() : canonical(part, (held) => personalForm(kind, held)));
  };
  const visit = (part: unknown): unknown => {
    if (typeof part === "string") return text(part);
    if (Array.isArray(part)) return part.map(visit);
    if (typeof part !== "object" || part === null) return part;
    const copy: Record<string, unknown> = {};
    // An object key may itself be an e-mail address.
    for (const [key, held] of Object.entries(part))
      copy[text(key)] = isPersonalKey(key) ? personal(held, plainKey(key).replace("sha256", "")) : visit(held);
    return copy;
  };
  return { value: visit(value), wasPlain };
};

// Finds personal data in what senders write and replaces it by keyed hashes, before anything
// reaches the log.
import type { Identify } from "./identify.ts";
import { MAX_FORMED, personalForm, personalForms } from "./personal-form.ts";

/**
 * Keys whose values are personal at any depth and in any case (docs/design/contracts.md, "Personal
 * data"), written without `_` and `-`.
 */
const PERSONAL: ReadonlySet<string> = new Set([
  ...["email", "phone", "firstname", "lastname", "name", "address"],
  // What a sender hashed gets its key under these names too.
  ...["emailsha256", "phonesha256"],
]);
const plainKey = (key: string): string => key.toLowerCase().replace(/[_-]/g, "");

export const isPersonalKey = (key: string): boolean => key.length <= 32 && PERSONAL.has(plainKey(key));

const SHA256_HEX = /^[0-9a-f]{64}$/i;

/**
 * A replacement, and whether anything was there in plain text (a value that was hashed before, only
 * gets its key).
 */
export interface ScrubResult<T> {
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
 * Each e-mail costs a keyed hash (2.5 us) and grows to 64 characters, so their number is bounded;
 * no honest event comes near.
 */
const MAX_EMAILS = 1_000;
/**
 * Of all e-mails and what stands under personal keys, in characters: their form costs up to 1.6 us
 * a character. No honest event comes near.
 */
const MAX_FORMED_OF_VALUE = 32_768;
/** More in one value than is hashed; the event is refused. The message says what, and the cure. */
export class TooMuchPersonalData extends Error {}

/** What one value has cost so far. */
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
 * Replaces whatever is shaped like an e-mail inside a text (a whole value, or a parameter of a URL,
 * where @ may be %40) by its hash. Throws TooMuchPersonalData.
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

/** In a URL a + of an address is %2B, and it is the same address. */
const unescaped = (local: string): string => {
  if (!local.includes("%")) return local;
  try {
    return decodeURIComponent(local);
  } catch {
    return local;
  }
};

/**
 * Every hash under which the log may hold an e-mail or phone: of the form of now, and of those that
 * records of before have. One that the sender had hashed (64 hex digits) gets its key alone.
 */
export const personalHashes = (kind: "email" | "phone", value: string, identify: Identify): readonly string[] => {
  const given = value.trim();
  if (SHA256_HEX.test(given)) return [identify.hashed(given.toLowerCase())];
  // Before form 2 an address in a URL was hashed with its escapes.
  const escaped = kind === "email" ? given.replace(/^[^@]*/, encodeURIComponent) : given;
  const forms = [...personalForms(kind, given), ...personalForms(kind, escaped)];
  return [...new Set(forms)].map(identify.plain);
};

/**
 * Where the signs stand, in order. Each form is searched from its last place: linear in the text.
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

/** The same text for the same content: sorted keys, texts as `leaf` writes them. */
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
 * The same JSON value with personal data replaced: what stands under a personal key, a list or an
 * object as one hash of its canonical text, and e-mails wherever they stand. Keys have been checked
 * before. Throws TooMuchPersonalData.
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
    // As each text is hashed when it stands alone, unless the whole is too long for that.
    const isLong = plain.length > MAX_FORMED;
    return identify.plain(isLong ? plain.toLowerCase() : canonical(part, (held) => personalForm(kind, held)));
  };
  const visit = (part: unknown): unknown => {
    if (typeof part === "string") return text(part);
    if (Array.isArray(part)) return part.map(visit);
    if (typeof part !== "object" || part === null) return part;
    const copy: Record<string, unknown> = {};
    // A key may be an address too.
    for (const [key, held] of Object.entries(part))
      copy[text(key)] = isPersonalKey(key) ? personal(held, plainKey(key).replace("sha256", "")) : visit(held);
    return copy;
  };
  return { value: visit(value), wasPlain };
};

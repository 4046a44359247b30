// Normalises personal data before it is hashed, so that two spellings of one value give one hash.
// Edges, pushes and the browser share this code; it imports nothing and uses only ES2019.

/**
 * The version of `personalForm`. Raise it with any change, and keep the previous form, so that
 * erasure still finds values that were hashed with it (docs/privacy.md).
 */
export const PERSONAL_FORM = 3;

/** `kind` is `email`, `phone`, or anything else, which is treated as a text. */
export const personalForm = (kind: string, given: string): string =>
  kind === "phone" ? phoneForm(given) : kind === "email" ? emailForm(given) : textForm(given);

/**
 * Longer texts are only lower-cased. No real address is this long, and NFKC can take 18 times the
 * space, and quadratic time on consecutive accents.
 */
export const MAX_FORMED = 1_024;

/**
 * NFKC, lower case, runs of white space reduced to one space, trimmed. Applied twice, because
 * lower-casing may create new compositions. Dots and +tags of an e-mail address stay, because
 * providers treat them differently.
 */
const textForm = (given: string): string =>
  (given.length > MAX_FORMED ? given.toLowerCase() : given.normalize("NFKC").toLowerCase().normalize("NFKC"))
    .replace(/\s+/g, " ")
    .trim();

const ADDRESS = /^[^\s@<>]{1,64}@[^\s@<>]+\.[^\s@<>.]{2,}$/;
/** Soft hyphens, zero-width spaces and the like, which come along when a text is copied. */
const UNSEEN = /\p{Cf}/gu;
/** What stands around an address in a list, in quotes or in brackets. */
const AROUND = /^["'([]+|["')\].,:;]+$/g;

/**
 * The address alone, without a display name, `mailto:`, escapes of a URL and unseen characters, so
 * that every spelling of one address is one person. Of several the one in angle brackets, else the
 * first. A text without an address stays a text.
 */
const emailForm = (given: string): string => {
  let text = textForm(given);
  if (given.length > MAX_FORMED) return text;
  // An address may be escaped twice, and what an escape hides may have another form. Each turn
  // takes something away, so this ends.
  for (;;) {
    const next = textForm(addressIn(unescaped(text.replace(UNSEEN, ""))));
    if (next === text) return text;
    text = next;
  }
};

const unescaped = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

const addressIn = (text: string): string => {
  const inBrackets = text.split("<").map((part) => part.split(">")[0]!);
  const words = [...inBrackets.slice(1).reverse(), ...text.split(/[,;<>]+/)];
  for (const word of words) {
    const plain = word
      .replace(/\([^()]*\)\s*$/, "")
      .trim()
      .replace(AROUND, "")
      .replace(/^(?:mailto:)+/, "");
    const [local, rest = ""] = plain.split("@", 2);
    // What follows the address of a mailto: is its subject and the like.
    const address = `${local}@${rest.split("?")[0]}`.replace(AROUND, "");
    if (ADDRESS.test(address)) return address;
  }
  return text;
};

/**
 * An extension such as `;ext=12`, `ext. 12`, `x12` or `#12`. It leads to a room and is not part of
 * the number.
 */
const EXTENSION = /\s*(?:;ext=|#|x|ext(?:ension|ensión)?)[\s.:]*\d{1,7}$/;
/** The (0) in `+44 (0)20 ...` is only dialled within that country. */
const TRUNK_OF_OTHERS = /^(\D*(?:00)?\s*\d{1,3}\s*)\(0\)/;
/** Mexican numbers have ten digits. Before 2019 they were dialled with one of these prefixes. */
const NATIONAL = /^(?:01|044|045)?(\d{10})$/;
/** After the country code 52, mobile numbers also had a 1. */
const BEHIND_52 = /^(?:01|044|045|1)?(\d{10})$/;

/**
 * E.164. A number that starts with + or 00 is international, and one of ten digits is Mexican. A
 * value with letters or without digits is treated as a text. Any other number keeps only its
 * digits, because its country is unknown.
 */
const phoneForm = (given: string): string => {
  const text = textForm(given);
  if (given.length > MAX_FORMED) return text;
  const number = text.replace(/^tel:/, "").replace(EXTENSION, "");
  if (/\p{L}/u.test(number) || !/\d/.test(number)) return text;
  const signs = number.replace(/[^\d+]/g, "");
  if (/^(?:\+|00)/.test(signs)) {
    const digits = number.replace(TRUNK_OF_OTHERS, "$1").replace(/\D/g, "").replace(/^0+/, "");
    if (digits === "") return text;
    return `+${digits.startsWith("52") ? `52${mexicanPart(digits.slice(2))}` : digits}`;
  }
  const digits = signs.replace(/\+/g, "");
  const national = NATIONAL.exec(digits) ?? (digits.startsWith("52") ? BEHIND_52.exec(digits.slice(2)) : null);
  return national === null ? digits : `+52${national[1]}`;
};

const mexicanPart = (digits: string): string => BEHIND_52.exec(digits)?.[1] ?? digits;

/** Form 1, used until 2026-11: NFC for texts, and digits and + as written for phone numbers. */
const firstForm = (kind: string, given: string): string => {
  const text = given.normalize("NFC").trim().toLowerCase();
  return kind === "phone" ? text.replace(/[^\d+]/g, "") : text.replace(/\s+/g, " ");
};

/** Form 2, used until 2026-11: an e-mail was a text. */
const secondForm = (kind: string, given: string): string => (kind === "phone" ? phoneForm(given) : textForm(given));

/**
 * What an e-mail was hashed as before form 3, of which its address is known. Display names are not
 * known, so they cannot be found.
 */
const formerSpellings = (address: string): readonly string[] =>
  ADDRESS.test(address)
    ? [`mailto:${address}`, address.replace("@", "%40"), `<${address}>`, `${address}\u200b`, `"${address}"`]
    : [];

/**
 * The value in every form that was ever hashed, the current one first. Used to find all data of a
 * person.
 */
export const personalForms = (kind: string, given: string): readonly string[] => {
  const form = personalForm(kind, given);
  const spelled = kind === "email" ? formerSpellings(form) : [];
  return [...new Set([form, secondForm(kind, given), firstForm(kind, given), ...spelled])];
};

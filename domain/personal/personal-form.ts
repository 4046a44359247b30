// Normalises personal data before it is hashed, so that two spellings of one value give one hash.
// Edges, pushes and the browser share this code; it imports nothing and uses only ES2019.

/**
 * The version of `personalForm`. Raise it with any change, and keep the previous form, so that
 * erasure still finds values that were hashed with it (docs/privacy.md).
 */
export const PERSONAL_FORM = 2;

/** `kind` is `email`, `phone`, or anything else, which is treated as a text. */
export const personalForm = (kind: string, given: string): string =>
  kind === "phone" ? phoneForm(given) : textForm(given);

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

/**
 * The value in every form that was ever hashed, the current one first. Used to find all data of a
 * person.
 */
export const personalForms = (kind: string, given: string): readonly string[] => [
  ...new Set([personalForm(kind, given), firstForm(kind, given)]),
];

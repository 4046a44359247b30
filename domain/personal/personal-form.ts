// The form of personal data before it is hashed: the same for edges, pushes and the browser, so
// that two spellings of one value are one hash. It imports nothing, and keeps to ES2019.

/**
 * What is hashed now. Raise it with any change of `personalForm`, and keep the form before for the
 * erasure of what was hashed then (docs/privacy.md).
 */
export const PERSONAL_FORM = 2;

/** `email`, `phone`, or any other kind: a text. */
export const personalForm = (kind: string, given: string): string =>
  kind === "phone" ? phoneForm(given) : textForm(given);

/**
 * Longer ones are hashed in lower case as they are: no one has such an address, and NFKC takes 18
 * times the room, and the square of the time where accents follow each other.
 */
export const MAX_FORMED = 1_024;

/**
 * NFKC, lower case, each run of white space as one space, none at the ends. What was lower-cased
 * may compose again, hence twice. Dots and +tags of an e-mail stay: providers differ in what they
 * mean.
 */
const textForm = (given: string): string =>
  (given.length > MAX_FORMED ? given.toLowerCase() : given.normalize("NFKC").toLowerCase().normalize("NFKC"))
    .replace(/\s+/g, " ")
    .trim();

/** `;ext=12`, `ext. 12`, `x12`, `#12`: a room behind the number, not the number. */
const EXTENSION = /\s*(?:;ext=|#|x|ext(?:ension|ensión)?)[\s.:]*\d{1,7}$/;
/** `+44 (0)20 ...`: dialled within that country alone. */
const TRUNK_OF_OTHERS = /^(\D*(?:00)?\s*\d{1,3}\s*)\(0\)/;
/** Mexican numbers have ten digits; before 2019 they were dialled with these in front. */
const NATIONAL = /^(?:01|044|045)?(\d{10})$/;
/** Behind 52 a mobile number had a 1 too. */
const BEHIND_52 = /^(?:01|044|045|1)?(\d{10})$/;

/**
 * E.164: a number that begins with + or 00 is international, and one of ten digits is Mexican. What
 * has letters, or no digit, is a text; any other number is its digits alone, since its country is
 * not known.
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

/** Form 1, until 2026-11: NFC, and of a phone its digits and + as they were written. */
const firstForm = (kind: string, given: string): string => {
  const text = given.normalize("NFC").trim().toLowerCase();
  return kind === "phone" ? text.replace(/[^\d+]/g, "") : text.replace(/\s+/g, " ");
};

/** A value in every form that was ever hashed, that of now first: for finding all of a person. */
export const personalForms = (kind: string, given: string): readonly string[] => [
  ...new Set([personalForm(kind, given), firstForm(kind, given)]),
];

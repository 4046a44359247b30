// Which secrets can be guessed: those made of few characters, or of words that people choose.

/** Most of a random secret is left when these are taken out of it. */
const WELL_KNOWN = new RegExp(
  "password|passwort|passwd|secret|change[-_ ]?(?:me|it|this)|replace[-_ ]?(?:me|this)|example|default|tributary|" +
    "insecure|development|production|testing|test|demo|admin|root|letmein|welcome|qwerty|asdf|abcdef|" +
    "0123456789|123456789|12345678|1234567|123456",
  "gi",
);
const MIN_CHARACTERS = 16;
const MIN_DISTINCT = 8;

/** True when enough of it is left without well-known words. */
export const isStrongSecret = (secret: string): boolean => {
  const left = secret.replace(WELL_KNOWN, "");
  return left.length >= MIN_CHARACTERS && new Set(left).size >= MIN_DISTINCT;
};

// The secrets of an installation as TRIBUTARY_SECRET lists them, so that one can replace another
// while both are valid.

export interface Keyring {
  /** Signs and seals from now on. */
  readonly newest: string;
  /** Signatures and seals of each of these are valid; the newest is first. */
  readonly accepted: readonly string[];
  /** Identifiers are always hashed with this one: with another one every device would be new. */
  readonly pepper: string;
}

const MIN_CHARACTERS = 32;
const CURE = "make one with `openssl rand -base64 32`";
/** Marks a secret that no longer signs or verifies, and still hashes identifiers. */
const PEPPER = "pepper:";

/** A random secret keeps most of its length when these are removed from it. */
const WELL_KNOWN = new RegExp(
  "password|passwort|passwd|secret|change[-_ ]?(?:me|it|this)|replace[-_ ]?(?:me|this)|example|default|tributary|" +
    "insecure|development|production|testing|test|demo|admin|root|letmein|welcome|qwerty|asdf|abcdef|" +
    "0123456789|123456789|12345678|1234567|123456",
  "gi",
);
const LEFT_CHARACTERS = 16;
const LEFT_DISTINCT = 8;

/** False for a secret of few characters, or of words that people choose. */
const isStrongSecret = (secret: string): boolean => {
  const left = secret.replace(WELL_KNOWN, "");
  return left.length >= LEFT_CHARACTERS && new Set(left).size >= LEFT_DISTINCT;
};

/**
 * `new,old`: the first signs, all verify, the last is the pepper. `new,pepper:old`: the last is
 * the pepper alone. A comma inside a secret is written %2C. Throws one sentence that shows no
 * value.
 */
export const keyringOf = (text: string): Keyring => {
  // White space at the ends belongs to a secret, as it did before there were lists.
  const members = text.split(/\s*,\s*/);
  const secrets = members.map((member) => member.replace(/^pepper:/, "").replaceAll("%2C", ","));
  const marked = members.findIndex((member) => member.startsWith(PEPPER));
  const which = (n: number): string => (members.length === 1 ? "" : `secret ${n + 1} of ${members.length} `);
  for (const [n, secret] of secrets.entries()) {
    if (secret.length < MIN_CHARACTERS)
      throw new Error(`${which(n)}must have at least ${MIN_CHARACTERS} characters (a comma separates two): ${CURE}`);
    if (!isStrongSecret(secret)) throw new Error(`${which(n)}can be guessed: ${CURE}`);
  }
  if (new Set(secrets).size < secrets.length) throw new Error("names one secret twice: leave one of them out");
  if (marked !== -1 && marked !== members.length - 1) throw new Error(`${PEPPER} belongs in front of the last secret`);
  const accepted = marked === -1 ? secrets : secrets.slice(0, -1);
  if (accepted.length === 0) throw new Error(`nothing signs: put a secret in front of the ${PEPPER} one, ${CURE}`);
  return Object.freeze({ newest: accepted[0]!, accepted, pepper: secrets.at(-1)! });
};

// The secrets of an installation as TRIBUTARY_SECRET lists them, so that one can replace another
// while both are valid; and how secrets are censored in texts. It loads no package, because every
// command censors what it prints.

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

export const CENSORED = "[redacted]";
/** Shorter secrets may be ordinary words. */
const MIN_LENGTH = 6;

/**
 * Replaces these values in a text, in plain, escaped and percent-encoded form, and all text that
 * matches the patterns.
 */
export const redactorOf = (
  secrets: readonly string[],
  patterns: readonly string[] = [],
): ((text: string) => string) => {
  const forms = secrets
    .filter((secret) => secret.length >= MIN_LENGTH)
    .flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)])
    .sort((a, b) => b.length - a.length)
    .map((form) => form.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"));
  if (forms.length + patterns.length === 0) return (text) => text;
  const found = new RegExp([...new Set(forms), ...patterns].join("|"), "g");
  return (text) => text.replace(found, CENSORED);
};

const ADDRESS = /^[a-z0-9+]+:\/\/([^:@/?]*):([^?]*)@/i;
const base64 = (text: string): string => Buffer.from(text).toString("base64");
const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

/**
 * The parts of these variables that must not be shown: the secrets of the installation, and the
 * password of each address in three forms: unchanged, decoded, and as clients send it (Basic, SASL
 * plain).
 */
export const secretsIn = (values: Readonly<Record<string, unknown>>): readonly string[] =>
  Object.entries(values).flatMap(([name, value]) => {
    if (name === "TRIBUTARY_SECRET")
      return typeof value === "string"
        ? value.split(",").map((member) => decoded(member.trim().replace(/^pepper:/, "")))
        : [...(value as Keyring).accepted, (value as Keyring).pepper].map((secret) => secret.trim());
    const [, user, password] = typeof value === "string" ? (ADDRESS.exec(value) ?? []) : [];
    if (user === undefined || !password) return [];
    const [login, plain] = [decoded(user), decoded(password)];
    return [password, plain, base64(`${login}:${plain}`), base64(`\0${login}\0${plain}`), base64(plain)];
  });

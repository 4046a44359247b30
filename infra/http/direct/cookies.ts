// Cookies that a page and our hosts share. They are read as hints, because any sibling host can set
// them.
import { isIP } from "node:net";

export interface SharedCookie {
  readonly name: string;
  /** May contain only letters, digits and `._~-`, because nothing is encoded. */
  readonly value: string;
  readonly maxAgeSec: number;
  /** Without a domain the cookie belongs to the host that sets it. */
  readonly domain?: string | undefined;
  readonly isSecure: boolean;
}

const VALUE = /^[A-Za-z0-9._~-]{1,256}$/;
/** A host and its parents may each have set a cookie of the same name. */
const MOST_OF_A_NAME = 4;

/** The values of that name in the header `Cookie`, unchanged; invalid values are left out. */
export const cookiesIn = (header: string | undefined, name: string): readonly string[] => {
  if (header === undefined || !header.includes(name)) return none;
  const found: string[] = [];
  for (const pair of header.split(";")) {
    const equals = pair.indexOf("=");
    if (equals === -1 || pair.slice(0, equals).trim() !== name) continue;
    const value = pair.slice(equals + 1).trim();
    if (VALUE.test(value)) found.push(value);
    if (found.length === MOST_OF_A_NAME) break;
  }
  return found;
};
const none: readonly string[] = [];

/** The value of a `Set-Cookie` header. Throws RangeError for a value that would need encoding. */
export const setCookie = ({ name, value, maxAgeSec, domain, isSecure }: SharedCookie): string => {
  if (!VALUE.test(value)) throw new RangeError(`the value of ${name} cannot stand in a cookie`);
  const parts = [`${name}=${value}`, `Max-Age=${maxAgeSec}`, "Path=/"];
  if (domain !== undefined) parts.push(`Domain=${domain}`);
  parts.push("SameSite=Lax");
  if (isSecure) parts.push("Secure");
  return parts.join("; ");
};

/**
 * The parent domain that two hosts share, of two labels or more; undefined if there is none, or if
 * they are the same host. It may be a public suffix, for which browsers accept no cookie.
 */
export const sharedDomain = (host: string, other: string): string | undefined => {
  const [one, two] = [host, other].map((given) => given.replace(/:\d+$/, "").toLowerCase()) as [string, string];
  if (one === two || isIP(one) !== 0 || isIP(two) !== 0) return undefined;
  const [ones, twos] = [one.split("."), two.split(".")];
  const shared: string[] = [];
  for (let label = ones.pop(); label !== undefined && label === twos.pop(); label = ones.pop()) shared.unshift(label);
  return shared.length >= 2 ? shared.join(".") : undefined;
};

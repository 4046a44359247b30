// The page that a request comes from: whether the client allows it, and what its browser may read
// and keep. Only browsers report this truthfully; other senders can forge it.
import { memo } from "../../domain/memo.ts";
import { cookiesIn, setCookie, sharedDomain } from "../../infra/http/direct/cookies.ts";
import type { Visit } from "../../infra/http/direct/direct-host.ts";
import { isAllowed } from "../../modules/catalog/pixel/pixel-config.ts";

/** The page's origin; null if the request has none or an invalid one. */
export const originOf = ({ request: { headers } }: Pick<Visit, "request">): string | null => {
  const given = headers.origin ?? headers.referer;
  return given === undefined ? null : pageOrigin(given);
};

/** A shop has few pages, and checking a URL parses it twice, so results are remembered. */
const PAGES_REMEMBERED = 10_000;
const pageOrigin = memo(PAGES_REMEMBERED, (given): string | null => {
  if (!URL.canParse(given)) return null;
  const { protocol, origin } = new URL(given);
  return protocol === "https:" || protocol === "http:" ? origin : null;
});

/**
 * A client without a list allows every page. With a list, a page without a known origin is refused.
 */
export const isPageAllowed = (origin: string | null, domains: readonly string[]): boolean =>
  domains.length === 0 || (origin !== null && isAllowed(origin, domains));

/**
 * True if the browser says that the page and this host belong to one site, so their cookies are
 * first-party.
 */
const isSameSite = ({ request: { headers } }: Visit): boolean =>
  headers["sec-fetch-site"] === "same-site" || headers["sec-fetch-site"] === "same-origin";

/**
 * Every page may send events and read the answers, which hold no data. Cookies are only accepted
 * from pages of the same site, or of a domain on the client's list.
 */
export const corsOf = (visit: Visit, domains: readonly string[]): Readonly<Record<string, string>> => {
  const { origin } = visit.request.headers;
  const isKnown = isSameSite(visit) || (domains.length > 0 && isPageAllowed(originOf(visit), domains));
  if (origin === undefined || !isKnown || originOf(visit) !== origin) return ANY_ORIGIN;
  return { "Access-Control-Allow-Origin": origin, "Access-Control-Allow-Credentials": "true", Vary: "Origin" };
};
export const ANY_ORIGIN = { "Access-Control-Allow-Origin": "*" } as const;

/**
 * The value of a cookie of the site. It is only a hint, because any page of the site can set it.
 */
export const cookieOf = ({ request: { headers } }: Visit, name: "_svc_did" | "_svc_cid"): string | undefined =>
  cookiesIn(headers.cookie, name)[0];

const YEAR_SEC = 365 * 24 * 3_600;
const COOKIE_VALUE = /^[A-Za-z0-9._~-]{1,256}$/;

/**
 * Stores the device id in a cookie for a year; browsers limit cookies of scripts to a week. Only
 * for pages of the same site: for others it would be a third-party cookie.
 */
export const deviceCookie = (visit: Visit, did: unknown): Readonly<Record<string, string>> => {
  if (!isSameSite(visit)) return {};
  const origin = originOf(visit);
  if (typeof did !== "string" || !COOKIE_VALUE.test(did) || origin === null) return {};
  const { host, protocol } = new URL(origin);
  const domain = sharedDomain(visit.host, host);
  const cookie = { name: "_svc_did", value: did, maxAgeSec: YEAR_SEC, domain, isSecure: protocol === "https:" };
  return { "Set-Cookie": setCookie(cookie) };
};

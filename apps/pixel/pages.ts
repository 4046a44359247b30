// Which page a request comes from, whether the client lets it, and what its browser may read and
// keep. All of it is as a browser says it: outside of browsers it can be forged.
import { memo } from "../../domain/memo.ts";
import { cookiesIn, setCookie, sharedDomain } from "../../infra/http/direct/cookies.ts";
import type { Visit } from "../../infra/http/direct/direct-host.ts";
import { isAllowed } from "../../modules/catalog/pixel/pixel-config.ts";

/** The page's origin; null: it says none, or none that is one. */
export const originOf = ({ request: { headers } }: Pick<Visit, "request">): string | null => {
  const given = headers.origin ?? headers.referer;
  return given === undefined ? null : pageOrigin(given);
};

/** The pages of a shop are few, and a URL is parsed twice to find that it is one. */
const PAGES_REMEMBERED = 10_000;
const pageOrigin = memo(PAGES_REMEMBERED, (given): string | null => {
  if (!URL.canParse(given)) return null;
  const { protocol, origin } = new URL(given);
  return protocol === "https:" || protocol === "http:" ? origin : null;
});

/** A client without a list takes every page; one with a list no page that is not known. */
export const isPageAllowed = (origin: string | null, domains: readonly string[]): boolean =>
  domains.length === 0 || (origin !== null && isAllowed(origin, domains));

/** The page and this host are of one site, as its browser says: their cookies are first-party. */
const isSameSite = ({ request: { headers } }: Visit): boolean =>
  headers["sec-fetch-site"] === "same-site" || headers["sec-fetch-site"] === "same-origin";

/**
 * Every page may send and read answers, which say nothing. With its cookies only one of the
 * same site, or one that the client's list names.
 */
export const corsOf = (visit: Visit, domains: readonly string[]): Readonly<Record<string, string>> => {
  const { origin } = visit.request.headers;
  const isKnown = isSameSite(visit) || (domains.length > 0 && isPageAllowed(originOf(visit), domains));
  if (origin === undefined || !isKnown || originOf(visit) !== origin) return ANY_ORIGIN;
  return { "Access-Control-Allow-Origin": origin, "Access-Control-Allow-Credentials": "true", Vary: "Origin" };
};
export const ANY_ORIGIN = { "Access-Control-Allow-Origin": "*" } as const;

/** What the cookies of the site say: hints, for any page of the site can set them. */
export const cookieOf = ({ request: { headers } }: Visit, name: "_svc_did" | "_svc_cid"): string | undefined =>
  cookiesIn(headers.cookie, name)[0];

const YEAR_SEC = 365 * 24 * 3_600;
const COOKIE_VALUE = /^[A-Za-z0-9._~-]{1,256}$/;

/**
 * The device id as a cookie of a year, which browsers cut to a week where a script sets it. Only
 * for a page of the same site: for another one it would be a third party's.
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

// Lets pages of the portal's origin read answers, and pages of no other host.
import type { RequestHandler } from "express";

/** Headers beside those that every page may send and read (Fetch, "CORS-safelisted"). */
const REQUEST_HEADERS = "Authorization, Content-Type, Idempotency-Key, If-Match, X-Request-Id";
const RESPONSE_HEADERS =
  "Content-Disposition, Deprecation, ETag, Location, RateLimit, RateLimit-Policy, Retry-After, Sunset, X-Request-Id";
const KEPT_SEC = "600";

/** Credentials are not allowed: the page sends its token itself, and no cookie is read here. */
export const allowOrigin =
  (portal: string | undefined): RequestHandler =>
  (request, response, next) => {
    response.vary("Origin");
    if (portal !== undefined && request.headers.origin === portal) {
      response.set("Access-Control-Allow-Origin", portal).set("Access-Control-Expose-Headers", RESPONSE_HEADERS);
      // The default of helmet would block pages of every other host, the portal included.
      response.set("Cross-Origin-Resource-Policy", "cross-origin");
    }
    next();
  };

/** Answers OPTIONS with the methods of a path, and to the portal with the allowed headers. */
export const answerPreflight =
  (portal: string | undefined, methods: string): RequestHandler =>
  (request, response) => {
    response.status(204).set("Allow", methods);
    if (portal !== undefined && request.headers.origin === portal)
      response.set({
        "Access-Control-Allow-Methods": methods,
        "Access-Control-Allow-Headers": REQUEST_HEADERS,
        "Access-Control-Max-Age": KEPT_SEC,
      });
    response.end();
  };

// Which pages of other hosts may read answers: those of the portal's origin, and no others.
import type { RequestHandler } from "express";

/** What the portal sends and reads beside what every page may (Fetch, "CORS-safelisted"). */
const REQUEST_HEADERS = "Authorization, Content-Type, Idempotency-Key, If-Match, X-Request-Id";
const RESPONSE_HEADERS =
  "Content-Disposition, Deprecation, ETag, Location, RateLimit, RateLimit-Policy, Retry-After, Sunset, X-Request-Id";
const KEPT_SEC = "600";

/** Without credentials: tokens are sent by the page itself, and no cookie is read here. */
export const allowOrigin =
  (portal: string | undefined): RequestHandler =>
  (request, response, next) => {
    response.vary("Origin");
    if (portal !== undefined && request.headers.origin === portal) {
      response.set("Access-Control-Allow-Origin", portal).set("Access-Control-Expose-Headers", RESPONSE_HEADERS);
      // Helmet's default keeps answers from pages of other hosts, this one too.
      response.set("Cross-Origin-Resource-Policy", "cross-origin");
    }
    next();
  };

/** OPTIONS of a path: what it takes, and for the portal what it may send. */
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

// Finds the sender of a request by its bearer token, in the tokens that this process holds in
// memory.
import type { IncomingMessage } from "node:http";
import { Problem, unavailable } from "./problem.ts";
import { localWindow } from "./rate-limit.ts";
import { senderOf } from "./sender.ts";

/**
 * Failures of a sender in a minute. Guessing 2^256 is hopeless anyway; this keeps a guesser from
 * asking without end.
 */
const MAX_FAILURES = 1_000;
/** Opaque tokens have 54 characters; a user token with all its claims has about a thousand. */
const BEARER = /^Bearer ([A-Za-z0-9._-]{1,4096})$/i;

/** The tokens that this process knows; each has a kind. */
export interface KnownTokens<Token extends { readonly kind: string }> {
  readonly find: (token: string) => Token | undefined;
  /** Looks for a token that this process does not know yet. Throws Unavailable if it cannot. */
  readonly lookUp: (token: string) => Promise<Token | undefined>;
  /** Resolves with the first load. */
  readonly ready: Promise<void>;
}

/**
 * Returns the token if it is of that kind. A token that was issued just now is looked up. Throws
 * Problem 401 for no token, an unknown or revoked one, or one of another kind (the same answer for
 * all), 429 for an address that fails too often, and 503 before the first load and while an unknown
 * token cannot be looked up: senders do not repeat what was answered with 401.
 */
export const authenticator = <Token extends { readonly kind: string }>(
  tokens: KnownTokens<Token>,
  kind: Token["kind"],
) => {
  let isLoaded = false;
  void tokens.ready.then(() => {
    isLoaded = true;
  });
  const refused = refusals();

  return async (request: IncomingMessage, address: string): Promise<Token> => {
    const found = bearerOf(request);
    const token = found === undefined ? undefined : (tokens.find(found) ?? (await tokens.lookUp(found)));
    if (token?.kind === kind) return token;
    if (!isLoaded) throw unavailable("tokens cannot be checked yet", 2);
    throw refused(
      address,
      new Problem("unauthorized", "send Authorization: Bearer <token> with a token that was issued for this route", {
        headers: { "WWW-Authenticate": `Bearer realm="${kind}"` },
      }),
    );
  };
};

/**
 * The answer for an address without a valid token: the given Problem 401, and 429 once it has
 * failed too often.
 */
export const refusals = (): ((address: string, unauthorized: Problem) => Problem) => {
  const failures = localWindow({ limit: MAX_FAILURES, windowMs: 60_000 });
  return (address, unauthorized) =>
    failures.take(senderOf(address), performance.now()).isAllowed
      ? unauthorized
      : new Problem("rate_limited", "too many requests without a valid token", { headers: { "Retry-After": "5" } });
};

/**
 * Two Authorization headers mean that a proxy between us and the sender may read the other one.
 */
export const bearerOf = (request: IncomingMessage): string | undefined => {
  const given = request.headers.authorization;
  if (given === undefined || !isAlone(request.rawHeaders, "authorization")) return undefined;
  return BEARER.exec(given)?.[1];
};

/**
 * Node keeps the first of repeated headers; asking it for all of them turns every header of the
 * request into a list.
 */
const isAlone = (rawHeaders: readonly string[], name: string): boolean => {
  let found = 0;
  for (let n = 0; n < rawHeaders.length; n += 2)
    if (rawHeaders[n]!.length === name.length && rawHeaders[n]!.toLowerCase() === name) found += 1;
  return found === 1;
};

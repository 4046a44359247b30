// Finds the user of a request by its token: a JWT of the configured issuer, whose subject is looked
// up in Postgres on every request.
import type { IncomingMessage } from "node:http";
import { createRemoteJWKSet, errors, type JWTVerifyGetKey, jwtVerify } from "jose";
import { Problem, unavailable } from "../../infra/http/problem.ts";
import { bearerOf, refusals } from "../../infra/http/tokens.ts";
import { orUnavailable } from "../../infra/runtime/errors.ts";
import { isLoopback } from "../../infra/runtime/same-machine.ts";
import type { Identity } from "../../modules/access/users/identity.ts";
import type { User } from "../../modules/access/users/users.ts";
import type { Act } from "../../modules/base/audit/audit.ts";

/** The `aud` of access tokens: the provider must be set up to issue them for this resource. */
export const AUDIENCE = "urn:tributary:api";
/**
 * docs/design/contracts.md, "Credentials". HMAC and `none` must stay out: anyone could sign with
 * the public key.
 */
const ALGORITHMS = ["RS256", "ES256", "EdDSA"];
const CLOCK_TOLERANCE_SEC = 30;
const ANSWER_MS = 5_000;
/**
 * Faults of the provider, not of the token: its keys are late, malformed, or come with another
 * status than 200 (jose throws its base class only then).
 */
const OF_THE_PROVIDER: readonly string[] = [errors.JWKSTimeout.code, errors.JWKSInvalid.code, errors.JOSEError.code];

/** Codes of callers without an account, whose failures count against their address. */
const NO_USER: readonly Problem["code"][] = ["unauthorized", "no_account"];

export interface IdentityPorts {
  /** Undefined: no issuer is configured, and every user token is refused. */
  readonly issuer: string | undefined;
  /** Rejects while Postgres is away. */
  readonly userOf: (identity: Identity, sender: Sender) => Promise<User | undefined>;
}
/** The sender, for the audit of a first login. */
type Sender = Pick<Act, "request_id" | "ip">;

/**
 * The user of a request. Throws Problem 401 without a valid token, 403 for a valid token without a
 * user, 429 for an address that fails too often, 503 while keys or users cannot be read.
 */
export const identify = ({ issuer, userOf }: IdentityPorts) => {
  let keys: Promise<JWTVerifyGetKey> | undefined;
  const keysOf = (of: string): Promise<JWTVerifyGetKey> => {
    keys ??= discover(of).catch((error) => {
      keys = undefined;
      throw error;
    });
    return keys;
  };

  const userIn = async (request: IncomingMessage, sender: Sender): Promise<User> => {
    const token = bearerOf(request);
    if (token === undefined || issuer === undefined) throw unauthorized();
    const identity = await identityIn(token, issuer, keysOf);
    const user = await userOf(identity, sender).catch(orUnavailable("users cannot be looked up now", 2));
    if (user === undefined)
      throw new Problem("no_account", "you are signed in, but have no account here: ask an admin for one");
    return user;
  };
  const refused = refusals();
  return (request: IncomingMessage, address: string, request_id = ""): Promise<User> =>
    userIn(request, { request_id, ip: address }).catch((error: unknown) => {
      throw error instanceof Problem && NO_USER.includes(error.code) ? refused(address, error) : error;
    });
};

const unauthorized = (): Problem =>
  new Problem("unauthorized", "send Authorization: Bearer <token> with a valid token of a user", {
    headers: { "WWW-Authenticate": 'Bearer realm="api"' },
  });

/**
 * Keys come from the configured issuer only: `jku`, `x5u` and `jwk` of a token are ignored.
 */
const discover = async (issuer: string): Promise<JWTVerifyGetKey> => {
  const answer = await fetch(`${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`, {
    signal: AbortSignal.timeout(ANSWER_MS),
  });
  if (!answer.ok) throw new Error(`the identity provider answered ${answer.status}`);
  const { jwks_uri: uri, issuer: named } = (await answer.json()) as { jwks_uri?: string; issuer?: string };
  if (uri === undefined || named !== issuer) throw new Error("the identity provider names another issuer, or no keys");
  const keys = new URL(uri);
  if (keys.protocol !== "https:" && !isLoopback(keys.hostname))
    throw new Error("the identity provider gives its keys without https");
  return createRemoteJWKSet(keys, { timeoutDuration: ANSWER_MS });
};

const LONGEST_SUBJECT = 255;

const identityIn = async (
  token: string,
  issuer: string,
  keysOf: (issuer: string) => Promise<JWTVerifyGetKey>,
): Promise<Identity> => {
  try {
    const { payload } = await jwtVerify(token, await keysOf(issuer), {
      issuer,
      audience: AUDIENCE,
      algorithms: ALGORITHMS,
      // An ID token has another type (RFC 9068).
      typ: "at+jwt",
      clockTolerance: CLOCK_TOLERANCE_SEC,
      requiredClaims: ["exp", "sub"],
    });
    const { sub: subject, email, email_verified: isVerified } = payload;
    // OpenID Connect Core, 2: a subject has at most 255 ASCII characters.
    if (typeof subject !== "string" || subject === "" || subject.length > LONGEST_SUBJECT || subject.includes("\0"))
      throw unauthorized();
    // An unverified address may belong to another person, so it must bind no account.
    return { issuer, subject, email: typeof email === "string" && isVerified === true ? email : null };
  } catch (error) {
    if (error instanceof Problem) throw error;
    // An unknown key, a bad signature and a wrong audience are faults of the token.
    if (error instanceof errors.JOSEError && !OF_THE_PROVIDER.includes(error.code)) throw unauthorized();
    throw unavailable("tokens cannot be checked now", 2);
  }
};

// The identity provider for a laptop: an e-mail address is enough to log in as its owner. Loopback
// only; not for production.
import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { join } from "node:path";
import { exportJWK, generateKeyPair } from "jose";
import type Provider from "oidc-provider";
import { refusalOf } from "../../runtime/same-machine.ts";
import { demoUsers } from "../demo-users.ts";
import { readJson, writeJson } from "../home.ts";
import { CLI_CLIENT, DEMO_GRANT } from "./login.ts";

/** The `aud` of access tokens. */
export const AUDIENCE = "urn:tributary:api";
export const PORTAL_CLIENT = "tributary-portal";

const BANNER = "The identity provider of the Tributary demonstration. Not for production: it asks for no password.";
const TOKEN_LIFE_SECONDS = 15 * 60;
const RESOURCE = {
  scope: "api",
  audience: AUDIENCE,
  accessTokenTTL: TOKEN_LIFE_SECONDS,
  accessTokenFormat: "jwt",
  jwt: { sign: { alg: "RS256" } },
};

interface Keys {
  readonly jwks: { readonly keys: readonly unknown[] };
  readonly cookies: readonly string[];
}

/**
 * Returns the signing and cookie keys, which are kept so that tokens and sessions outlive a
 * restart.
 */
async function keysIn(folder: string): Promise<Keys> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const file = join(folder, "keys.json");
  const kept = readJson<Keys>(file);
  if (kept !== undefined) return kept;
  const { privateKey } = await generateKeyPair("RS256", { extractable: true });
  const key = { ...(await exportJWK(privateKey)), alg: "RS256", use: "sig", kid: randomBytes(8).toString("hex") };
  const made: Keys = { jwks: { keys: [key] }, cookies: [randomBytes(32).toString("base64url")] };
  writeJson(file, made);
  return made;
}

const profileOf = (email: string) => ({
  email,
  email_verified: true,
  name: demoUsers.find((user) => user.email === email)?.name ?? email,
});
const isEmail = (text: string): boolean => /^[^\s@]+@[^\s@]+$/.test(text);

const clientsOf = (loginSecret: string) => [
  {
    client_id: PORTAL_CLIENT,
    // A native client may return to any loopback port, and the portal's port is chosen at its first
    // start.
    application_type: "native",
    token_endpoint_auth_method: "none",
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    redirect_uris: ["http://127.0.0.1/callback", "http://127.0.0.1/auth/callback"],
    post_logout_redirect_uris: ["http://127.0.0.1/"],
  },
  {
    client_id: CLI_CLIENT,
    client_secret: loginSecret,
    token_endpoint_auth_method: "client_secret_post",
    grant_types: [DEMO_GRANT],
    response_types: [],
    redirect_uris: [],
  },
];

const configuration = (keys: Keys, loginSecret: string) => ({
  jwks: keys.jwks,
  cookies: { keys: keys.cookies },
  clients: clientsOf(loginSecret),
  scopes: ["openid", "offline_access", "email", "profile", "api"],
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
  conformIdTokenClaims: false,
  pkce: { required: () => true },
  features: {
    devInteractions: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => AUDIENCE,
      useGrantedResource: () => true,
      getResourceServerInfo: () => RESOURCE,
    },
  },
  ttl: {
    AccessToken: TOKEN_LIFE_SECONDS,
    IdToken: TOKEN_LIFE_SECONDS,
    RefreshToken: 14 * 86_400,
    Session: 14 * 86_400,
    Grant: 14 * 86_400,
    Interaction: 3_600,
  },
  rotateRefreshToken: true,
  issueRefreshToken: async (_context: unknown, client: { grantTypeAllowed: (grant: string) => boolean }) =>
    client.grantTypeAllowed("refresh_token"),
  findAccount: (_context: unknown, id: string) =>
    isEmail(id) ? { accountId: id, claims: () => ({ sub: id, ...profileOf(id) }) } : undefined,
  extraTokenClaims: (_context: unknown, token: { accountId?: string }) =>
    token.accountId === undefined ? {} : profileOf(token.accountId),
});

/** Listens on loopback by default; wherever it listens, its name is that of the loopback. */
export async function serveIdentity(options: {
  readonly port: number;
  readonly host?: string;
  readonly folder: string;
  readonly loginSecret: string;
}): Promise<{ readonly close: () => Promise<void> }> {
  const keys = await keysIn(options.folder);
  const { provider, notices } = await quietly(async () => {
    const { default: Provider, errors } = await import("oidc-provider");
    const opened = new Provider(`http://127.0.0.1:${options.port}`, configuration(keys, options.loginSecret));
    addDemoGrant(opened, errors.InvalidRequest);
    return opened;
  });
  console.log(
    JSON.stringify({
      event: "identity.notices",
      text: `${BANNER} Its library gave ${notices} notices about development settings; they are meant so here.`,
    }),
  );
  provider.on("server_error", (_context, error) => console.error(error));
  const server = createServer(answering(provider.callback()));
  const { port, host = "127.0.0.1" } = options;
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, host, resolve));
  return {
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      }),
  };
}

/** Its own pages post forms, and the portal of this machine asks for tokens. */
const answering =
  (handle: ReturnType<Provider["callback"]>): RequestListener =>
  (request, response) => {
    const refusal = refusalOf(request.headers, "of this machine");
    if (refusal !== undefined)
      response.writeHead(403, { "content-type": "text/plain; charset=utf-8" }).end(`${refusal}\n`);
    else if (request.url === "/")
      response.writeHead(200, { "content-type": "text/plain; charset=utf-8" }).end(`${BANNER}\n`);
    else void handle(request, response);
  };

/** The grant of the command line: an e-mail address is exchanged for a token of its owner. */
const addDemoGrant = (provider: Provider, InvalidRequest: new (message: string) => Error): void =>
  provider.registerGrantType(
    DEMO_GRANT,
    async (context) => {
      const email = context.oidc.params.email ?? "";
      if (!isEmail(email)) throw new InvalidRequest("email must be an e-mail address");
      const token = new provider.AccessToken({ accountId: email, client: context.oidc.client, gty: DEMO_GRANT });
      token.resourceServer = new provider.ResourceServer(AUDIENCE, RESOURCE);
      token.scope = RESOURCE.scope;
      context.body = {
        access_token: await token.save(),
        expires_in: token.expiration,
        scope: token.scope,
        token_type: token.tokenType,
      };
    },
    ["email"],
  );

/**
 * Runs `open` and counts the lines that the library prints meanwhile: a dozen coloured notices that
 * it is set up for development.
 */
async function quietly<T>(open: () => Promise<T>): Promise<{ readonly provider: T; readonly notices: number }> {
  const { warn, info } = console;
  let notices = 0;
  console.warn = console.info = () => {
    notices += 1;
  };
  try {
    return { provider: await open(), notices };
  } finally {
    Object.assign(console, { warn, info });
  }
}

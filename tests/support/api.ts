// The platform API in this process, on the servers of the suite, with its own identity provider and
// mail server.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { importJWK, SignJWT } from "jose";
import { api } from "../../apps/api/api.ts";
import { readConfig } from "../../apps/api/config.ts";
import { AUDIENCE, serveIdentity } from "../../infra/embedded/servers/identity.ts";
import { demoToken } from "../../infra/embedded/servers/login.ts";
import { serveMail } from "../../infra/embedded/servers/mail.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { openLog } from "../../infra/runtime/log.ts";
import { openScope } from "../../infra/runtime/scope.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { letDemoUsersIn } from "../../modules/running/installation/seed.ts";
import { asApp } from "./as-app.ts";
import { freePort } from "./ingest.ts";

const LOGIN_SECRET = "only this suite knows it";

export interface RunningApi {
  readonly url: string;
  /** The address of the mail server that gets its alerts. */
  readonly smtpUrl: string;
  /** Received mails, oldest first. */
  readonly mails: () => readonly string[];
  readonly token: (email: string) => Promise<string>;
  /**
   * A token with any claims, signed with the provider's own key. It is valid except for the claims
   * that a test changes.
   */
  readonly signed: (
    claims: Readonly<Record<string, unknown>>,
    header?: Readonly<Record<string, unknown>>,
  ) => Promise<string>;
  /** The provider's public key as it publishes it. */
  readonly publicKey: () => Promise<Record<string, string>>;
  readonly close: () => Promise<void>;
}

/** All files use the users of the demonstration, and each user may send 600 requests a minute. */
const forgetRequests = async (url: string): Promise<void> => {
  const redis = new Redis(url);
  const keys = await redis.keys("rate:api:*");
  if (keys.length > 0) await redis.del(...keys);
  redis.disconnect();
};

export const startApi = async (env: Readonly<Record<string, string>>): Promise<RunningApi> => {
  const folder = mkdtempSync(join(tmpdir(), "tributary-api-"));
  const [port, opsPort, mailPort, identityPort] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ];
  const mail = await serveMail({ port: mailPort, folder: join(folder, "mail") });
  const identity = await serveIdentity({
    port: identityPort,
    folder: join(folder, "identity"),
    loginSecret: LOGIN_SECRET,
  });
  const issuer = `http://127.0.0.1:${identityPort}`;
  const smtpUrl = `smtp://127.0.0.1:${mailPort}/?from=tributary@demo.tributary.test&to=operations@demo.tributary.test`;
  const pool = openPool(env.POSTGRES_URL!, { max: 1 });
  await letDemoUsersIn(pool, issuer).finally(() => pool.end());
  await forgetRequests(env.REDIS_URL!);
  const log = openLog({ app: "api", level: "silent" });
  const scope = openScope(log, (error) => {
    throw error;
  });
  const own = { PORT: String(port), OPS_PORT: String(opsPort), INSTANCE_NAME: "api-test", LOG_LEVEL: "silent" };
  await api(readConfig({ ...asApp(env, "api"), ...own, OIDC_ISSUER: issuer, SMTP_URL: smtpUrl }), log)(scope);
  await until("the platform API is ready", 30_000, async () => {
    const answer = await fetch(`http://127.0.0.1:${opsPort}/readyz`);
    if (!answer.ok) throw new Error(await answer.text());
  });
  return {
    url: `http://127.0.0.1:${port}`,
    smtpUrl,
    mails: () =>
      readdirSync(join(folder, "mail"))
        .filter((file) => file.endsWith(".eml"))
        .sort()
        .map((file) => readFileSync(join(folder, "mail", file), "utf8")),
    token: (email) => demoToken(issuer, LOGIN_SECRET, email),
    signed: async (claims, header = {}) => {
      const { jwks } = JSON.parse(readFileSync(join(folder, "identity", "keys.json"), "utf8"));
      const [jwk] = jwks.keys;
      const now = Math.floor(Date.now() / 1_000);
      const good = {
        iss: issuer,
        aud: AUDIENCE,
        sub: "admin@demo.tributary.test",
        email: "admin@demo.tributary.test",
        email_verified: true,
      };
      return new SignJWT({ ...good, iat: now, exp: now + 60, ...claims })
        .setProtectedHeader({ alg: "RS256", kid: jwk.kid, typ: "at+jwt", ...header })
        .sign(await importJWK(jwk, "RS256"));
    },
    publicKey: async () =>
      ((await (await fetch(`${issuer}/jwks`)).json()) as { keys: Record<string, string>[] }).keys[0]!,
    close: async () => {
      const problems = await scope.close();
      await Promise.all([identity.close(), mail.close()]);
      rmSync(folder, { recursive: true, force: true });
      if (problems.length > 0) throw new Error(`not closed: ${JSON.stringify(problems)}`);
    },
  };
};

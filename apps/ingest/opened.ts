// What the ingest host looks things up in.
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { openRateLimit } from "../../infra/http/rate-limit.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import type { Log } from "../../infra/runtime/log.ts";
import { closing, type Scope } from "../../infra/runtime/scope.ts";
import { openInstallationSecrets } from "../../modules/access/installation-secrets.ts";
import { openTokens, REQUESTS_A_MINUTE } from "../../modules/access/tokens.ts";
import { openReference } from "../../modules/reference/reference.ts";
import type { Config } from "./config.ts";

export interface Opening {
  readonly scope: Scope;
  readonly config: Config;
  readonly log: Log;
}

const MINUTE = { limit: REQUESTS_A_MINUTE, windowMs: 60_000 };

export const openStores = async ({ scope, config, log }: Opening) => {
  const warned = (what: string) => ({ onError: (error: unknown) => log.warn(`${what}.not_refreshed`, { error }) });
  const pool = await scope.open("postgres", () => {
    const name = `tributary-${config.INSTANCE_NAME}`;
    const value = openPool(config.POSTGRES_URL, { name, max: 3, timeoutMs: 2_000 });
    return { value, stop: () => value.end() };
  });
  return {
    pool,
    secrets: openInstallationSecrets(pool, {
      instance: config.INSTANCE_NAME,
      keyring: config.TRIBUTARY_SECRET,
      log,
      fail: scope.fail,
      signal: scope.closing,
    }),
    tokens: await scope.open("tokens", () => closing(openTokens(pool, warned("tokens")))),
    reference: await scope.open("reference", () => closing(openReference(pool, warned("reference")))),
    clickhouse: await scope.open("clickhouse", () =>
      closing(openClickhouse(config.CLICKHOUSE_URL, { connections: 1, timeoutMs: 2_000 })),
    ),
    rateLimit: await scope.open("redis", () => closing(openRateLimit(config.REDIS_URL, MINUTE, log))),
  };
};
export type Stores = Awaited<ReturnType<typeof openStores>>;

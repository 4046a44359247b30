// Opens the stores in which the ingest host looks things up.
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import type { AppOpening } from "../../infra/http/app/open-app.ts";
import { openRateLimit } from "../../infra/http/rate-limit.ts";
import { closing } from "../../infra/runtime/scope.ts";
import { openTokens } from "../../modules/access/tokens/live-tokens.ts";
import { REQUESTS_A_MINUTE } from "../../modules/access/tokens/tokens.ts";
import { openReference } from "../../modules/catalog/reference/reference.ts";
import type { Edge } from "../../modules/intake/path/edge.ts";
import { openSources } from "../../modules/intake/sources/source-picture.ts";
import type { Config } from "./config.ts";

export type Opening = AppOpening<Config>;

const MINUTE = { limit: REQUESTS_A_MINUTE, windowMs: 60_000 };

export const openStores = async ({ scope, config, log }: Opening, { pool }: Pick<Edge, "pool">) => {
  const warned = (what: string) => ({ onError: (error: unknown) => log.warn(`${what}.not_refreshed`, { error }) });
  return {
    tokens: await scope.open("tokens", () => closing(openTokens(pool, warned("tokens")))),
    reference: await scope.open("reference", () => closing(openReference(pool, warned("reference")))),
    sources: await scope.open("sources", () =>
      closing(openSources(pool, { keyring: config.TRIBUTARY_SECRET, ...warned("sources") })),
    ),
    clickhouse: await scope.open("clickhouse", () =>
      closing(openClickhouse(config.CLICKHOUSE_URL, { connections: 1, timeoutMs: 2_000 })),
    ),
    rateLimit: await scope.open("redis", () => closing(openRateLimit(config.REDIS_URL, MINUTE, log))),
  };
};
export type Stores = Awaited<ReturnType<typeof openStores>>;

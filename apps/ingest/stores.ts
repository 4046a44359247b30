// Opens the stores in which the ingest host looks things up.
import { setTimeout as sleep } from "node:timers/promises";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import type { AppOpening } from "../../infra/http/app/open-app.ts";
import { openRateLimit } from "../../infra/http/rate-limit.ts";
import { type Admin, openKafka } from "../../infra/kafka/kafka.ts";
import type { Log } from "../../infra/runtime/log.ts";
import { closing, type Resource } from "../../infra/runtime/scope.ts";
import { openTokens } from "../../modules/access/tokens/live-tokens.ts";
import { REQUESTS_A_MINUTE } from "../../modules/access/tokens/tokens.ts";
import { openReference } from "../../modules/catalog/reference/reference.ts";
import type { Edge } from "../../modules/intake/path/edge.ts";
import { openQuotas } from "../../modules/intake/quotas/quotas.ts";
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
    quotas: await scope.open("quotas", () => closing(openQuotas(pool, warned("quotas")))),
    clickhouse: await scope.open("clickhouse", () =>
      closing(openClickhouse(config.CLICKHOUSE_URL, { connections: 1, timeoutMs: 2_000 })),
    ),
    admin: await scope.open("admin", () => openAdminOnce(config, log)),
    rateLimit: await scope.open("redis", () => closing(openRateLimit(config.REDIS_URL, MINUTE, log))),
  };
};
export type Stores = Awaited<ReturnType<typeof openStores>>;

const LEAVE_MS = 1_000;

/**
 * One connection for what the edge asks of the log (health, receipts, hosts), opened by the first
 * question. If it cannot be opened, the next question tries again.
 */
const openAdminOnce = (
  { INSTANCE_NAME: instance, KAFKA_BROKERS: brokers, KAFKA_TOPIC_PREFIX: topicPrefix }: Config,
  log: Log,
): Resource<() => Promise<Admin>> => {
  const kafka = openKafka({ brokers, clientId: `tributary-${instance}`, topicPrefix, log });
  let opened: Promise<Admin> | undefined;
  const open = (): Promise<Admin> => {
    opened ??= kafka.admin().catch((error) => {
      opened = undefined;
      throw error;
    });
    return opened;
  };
  // A log that hangs responds neither to connecting nor to leaving.
  const leave = async (): Promise<void> => (await opened?.catch(() => undefined))?.close();
  return { value: open, stop: () => Promise.race([leave(), sleep(LEAVE_MS, undefined, { ref: false })]) };
};

// Opens the stores of the platform API, and the pictures of them that it holds in memory.
import type { Pool } from "pg";
import { clickIdKey } from "../../domain/click-id.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { pingClickhouse } from "../../infra/clickhouse/ping.ts";
import { openRateLimit } from "../../infra/http/rate-limit.ts";
import { openObjects } from "../../infra/objects/open.ts";
import { pingPostgres } from "../../infra/postgres/ping.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import type { Log } from "../../infra/runtime/log.ts";
import { closing, type Scope } from "../../infra/runtime/scope.ts";
import { openInstallationSecrets } from "../../modules/access/secrets/installation-secrets.ts";
import { openTokens } from "../../modules/access/tokens/live-tokens.ts";
import { openDelivery } from "../../modules/base/alerts/delivery.ts";
import { openMailer } from "../../modules/base/alerts/mail.ts";
import { openPlans } from "../../modules/catalog/clients/plans.ts";
import { type OpenReference, openReference } from "../../modules/catalog/reference/reference.ts";
import { openLeads } from "../../modules/intake/leads/leads.ts";
import { openQuotas } from "../../modules/intake/quotas/quotas.ts";
import { clickKeysOf } from "../../processors/attribute/facts.ts";
import type { Config } from "./config.ts";
import { USUAL } from "./limits.ts";

/** A request waits no longer than this for a store. */
export const STORE_MS = 2_000;

/** The name of the process in the logs of the stores. */
export const nameOf = ({ INSTANCE_NAME }: Config): string => `tributary-${INSTANCE_NAME}`;

/** Connections are made by the first use, so the process starts while a store is away. */
export const openStores = async (config: Config, log: Log, scope: Scope) => {
  const name = nameOf(config);
  const pool = await scope.open("postgres", () => {
    const value = openPool(config.POSTGRES_URL, { name, max: 8, timeoutMs: STORE_MS });
    return { value, stop: () => value.end() };
  });
  const figures = await scope.open("postgres-figures", () => {
    const value = openPool(config.POSTGRES_URL, { name: `${name}-figures`, max: 4, timeoutMs: STORE_MS });
    return { value, stop: () => value.end() };
  });
  const pepper = openPepper(config, pool, log, scope);
  const { tokens, areTokensKnown, plans, reference } = await openPictures(pool, log, scope);
  const clickhouse = await scope.open("clickhouse", () =>
    closing(openClickhouse(config.CLICKHOUSE_URL, { name, connections: 4, timeoutMs: STORE_MS })),
  );
  const rateLimit = await scope.open("redis", () =>
    closing(openRateLimit(config.REDIS_URL, { limit: USUAL, windowMs: 60_000 }, log)),
  );
  const mailer = await scope.open("mail", () => {
    const value = openMailer(config.SMTP_URL, config.DOCS_URL);
    return { value, stop: () => value?.close() };
  });
  const objects = await scope.open("objects", () => closing(openObjects(config.OBJECT_STORE_URL)));
  return {
    ...{ pool, figures, clickhouse, objects, mailer, tokens, areTokensKnown },
    planOf: plans.of,
    quotas: await openQuotasOf(pool, log, scope),
    leads: leadsOf(config, pool, pepper, reference),
    limit: rateLimit.take,
    analytics: () => pingClickhouse(clickhouse),
    cache: rateLimit.ping,
    relational: () => pingPostgres(pool),
    reportAlert: openDelivery(pool, mailer, log),
  };
};

/** Tokens, plans and reference data are read once, then refreshed when they change. */
const openPictures = async (pool: Pool, log: Log, scope: Scope) => {
  const warned = (name: string) => ({ onError: (error: unknown) => log.warn(`${name}.not_refreshed`, { error }) });
  let isLoaded = false;
  const tokens = await scope.open("tokens", () => closing(openTokens(pool, warned("tokens"))));
  void tokens.ready.then(() => {
    isLoaded = true;
  });
  return {
    tokens,
    areTokensKnown: () => isLoaded,
    plans: await scope.open("plans", () => closing(openPlans(pool, warned("plans")))),
    reference: await scope.open("reference", () => closing(openReference(pool, warned("reference")))),
  };
};

/** Leads are counted; the login of the API counts in the role of the edges. */
const openQuotasOf = (pool: Pool, log: Log, scope: Scope) => {
  const onError = (error: unknown) => log.warn("quotas.not_written", { error });
  return scope.open("quotas", () => closing(openQuotas(pool, { role: "tributary_edge", onError })));
};

type Pepper = () => string;

const openPepper = (config: Config, pool: Pool, log: Log, { fail, closing: signal }: Scope): Pepper =>
  openInstallationSecrets(pool, {
    ...{ instance: config.INSTANCE_NAME, keyring: config.TRIBUTARY_SECRET, log, fail, signal },
  }).pepper;

const leadsOf = ({ TRIBUTARY_SECRET: keyring }: Config, pool: Pool, pepper: Pepper, { reference }: OpenReference) => {
  const clickKeys = clickKeysOf(keyring.accepted.map((secret) => clickIdKey(secret, 1)));
  return openLeads({ pool, keyring, pepper, reference, clickKeys });
};

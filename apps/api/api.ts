// The platform API: opens what it needs by name, serves, and closes in reverse.

import { clickIdKey } from "../../domain/click-id.ts";
import { derive } from "../../domain/derive.ts";
import { lateWire } from "../../infra/avro/late-wire.ts";
import { openRegistry } from "../../infra/avro/registry.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { openApp, serve } from "../../infra/http/app/open-app.ts";
import { orUnavailable, unavailable } from "../../infra/http/problem.ts";
import { openRateLimit } from "../../infra/http/rate-limit.ts";
import { authenticator, refusals } from "../../infra/http/tokens.ts";
import { type Kafka, lastingAdmin, openKafka } from "../../infra/kafka/kafka.ts";
import { openObjects } from "../../infra/objects/open.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { need } from "../../infra/runtime/errors.ts";
import type { Log } from "../../infra/runtime/log.ts";
import { closing, type Scope } from "../../infra/runtime/scope.ts";
import { keepDoing } from "../../infra/runtime/timing/schedule.ts";
import { openInstallationSecrets } from "../../modules/access/secrets/installation-secrets.ts";
import { openTokens } from "../../modules/access/tokens/live-tokens.ts";
import { userOf } from "../../modules/access/users/identity.ts";
import { openDelivery } from "../../modules/base/alerts/delivery.ts";
import { openMailer } from "../../modules/base/alerts/mail.ts";
import { openPlans } from "../../modules/catalog/clients/plans.ts";
import { openReference } from "../../modules/catalog/reference/reference.ts";
import { openPositions } from "../../modules/figures/reads/positions.ts";
import { openLeads } from "../../modules/intake/leads/leads.ts";
import { groupsNow } from "../../modules/log/groups/group-reads.ts";
import { decisionMessages, decisionTopic } from "../../modules/money/decisions/decision-messages.ts";
import { openTrials } from "../../modules/money/trials/open-trials.ts";
import { clickKeysOf } from "../../processors/attribute/click-keys.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import type { Config } from "./config.ts";
import { identify } from "./identity.ts";
import { USUAL } from "./limits.ts";
import { mails } from "./mails.ts";
import type { ApiPorts } from "./route.ts";
import { routesOf } from "./routes.ts";
import { apiApp } from "./server.ts";

const STORE_MS = 2_000;

/**
 * What `run` of infra/runtime/scope.ts runs. Returns once it serves, which is at once: stores that
 * are away make it answer 503, not fail.
 */
export const api =
  (config: Config, log: Log) =>
  async (scope: Scope): Promise<void> => {
    const opening = { scope, config, log };
    const { startedAt, version, metrics, ready } = await openApp("api", opening);
    const stores = await openStores(config, log, scope);
    const kafka = openKafka({
      brokers: config.KAFKA_BROKERS,
      clientId: nameOf(config),
      topicPrefix: config.KAFKA_TOPIC_PREFIX,
      log,
    });
    const writing = await openLogWrites(config, kafka, scope);
    const logReads = await openLogReads(kafka, scope);
    const { KAFKA_TOPIC_PREFIX: topicPrefix, SCHEMA_REGISTRY_URL: url, CLICKHOUSE_URL: clickhouseUrl } = config;
    const registry = openRegistry({ url, topicPrefix, deadlineMs: STORE_MS });
    const ofTrials = { pool: stores.pool, registry, clickhouseUrl, name: nameOf(config) };
    const trials = await scope.open("trials", () => openTrials(ofTrials));
    const cursorKeys = config.TRIBUTARY_SECRET.accepted.map((secret) => derive(secret, "api.cursor"));
    const { TRIBUTARY_SECRET: keyring, PORTAL_URL: portal } = config;
    const ports: Omit<ApiPorts, "served"> = {
      version,
      startedAt,
      ...writing,
      trials,
      cursorKeys,
      planKeys: config.TRIBUTARY_SECRET.accepted.map((secret) => derive(secret, "api.plan")),
      log: logReads,
      positions: openPositions(stores.pool, () =>
        logReads((sources) => groupsNow({ pool: stores.pool, ...sources, topology: pipeline }, Date.now())),
      ),
      keyring,
      portal,
      ...stores,
    };
    const authenticate = authenticator(stores.tokens, "service");
    const app = apiApp(await routesOf(ports), {
      identify: identify({ issuer: config.OIDC_ISSUER, userOf: (...asked) => userOf(stores.pool, ...asked) }),
      isSigned: stores.leads.isSigned,
      refused: refusals(),
      service: (request) => authenticate(request, request.ip ?? "").token_id,
      limit: stores.limit,
      planOf: stores.planOf,
      pool: stores.pool,
      cursorKeys,
      files: { underWay: 0 },
      portal,
      count: metrics.countRequest,
      trustedProxies: config.TRUSTED_PROXIES,
      log,
    });
    const served = await serve(opening, app);
    const { pool, mailer } = stores;
    if (mailer !== undefined)
      await scope.open("mails", () => keepDoing(mails({ pool, mailer, keyring, portal }), { log, metrics }));
    await ready({ tokens: () => need(stores.areTokensKnown(), "the tokens are not known yet") }, served);
  };

const nameOf = ({ INSTANCE_NAME }: Config): string => `tributary-${INSTANCE_NAME}`;

/** Connections are made when they are needed. */
const openStores = async (config: Config, log: Log, scope: Scope) => {
  const name = nameOf(config);
  const pool = await scope.open("postgres", () => {
    const value = openPool(config.POSTGRES_URL, { name, max: 8, timeoutMs: STORE_MS });
    return { value, stop: () => value.end() };
  });
  const secrets = openInstallationSecrets(pool, {
    instance: config.INSTANCE_NAME,
    keyring: config.TRIBUTARY_SECRET,
    log,
    fail: scope.fail,
    signal: scope.closing,
  });
  let isLoaded = false;
  const tokens = await scope.open("tokens", () =>
    closing(openTokens(pool, { onError: (error) => log.warn("tokens.not_refreshed", { error }) })),
  );
  void tokens.ready.then(() => {
    isLoaded = true;
  });
  const plans = await scope.open("plans", () =>
    closing(openPlans(pool, { onError: (error) => log.warn("plans.not_refreshed", { error }) })),
  );
  const reference = await scope.open("reference", () =>
    closing(openReference(pool, { onError: (error) => log.warn("reference.not_refreshed", { error }) })),
  );
  const clickhouse = await scope.open("clickhouse", () =>
    closing(openClickhouse(config.CLICKHOUSE_URL, { name, connections: 4, timeoutMs: STORE_MS })),
  );
  const rateLimit = await scope.open("redis", () =>
    closing(openRateLimit(config.REDIS_URL, { limit: USUAL, windowMs: 60_000 }, log)),
  );
  const mailer = await scope.open("mail", () => {
    const value = openMailer(config.SMTP_URL);
    return { value, stop: () => value?.close() };
  });
  const objects = await scope.open("objects", () => closing(openObjects(config.OBJECT_STORE_URL)));
  return {
    pool,
    clickhouse,
    objects,
    tokens,
    planOf: plans.of,
    leads: openLeads({
      pool,
      keyring: config.TRIBUTARY_SECRET,
      pepper: secrets.pepper,
      reference: reference.reference,
      clickKeys: clickKeysOf(config.TRIBUTARY_SECRET.accepted.map((secret) => clickIdKey(secret, 1))),
    }),
    areTokensKnown: () => isLoaded,
    limit: rateLimit.take,
    analytics: async () =>
      void (await clickhouse.query({ query: "SELECT 1", format: "JSONCompact" }).then((answer) => answer.json())),
    cache: rateLimit.ping,
    relational: async () => void (await pool.query("select 1")),
    mailer,
    reportAlert: openDelivery(pool, mailer, log),
  };
};

/** A rewind is planned from a dozen answers of the broker, some of them by reading records. */
const LOG_MS = 15_000;

const openLogReads = async (kafka: Kafka, scope: Scope): Promise<ApiPorts["log"]> => {
  const lasting = await scope.open("log", () => closing(lastingAdmin(kafka, LOG_MS)));
  return async (question) => {
    let known: { readonly problem: unknown } | undefined;
    try {
      return await lasting.ask((admin) =>
        question({ kafka, admin }).catch((problem: unknown) => {
          known = { problem };
          throw problem;
        }),
      );
    } catch {
      // Without an answer to the question at all, the broker was silent.
      if (known === undefined) throw unavailable("the log does not answer now", 5);
      return orUnavailable("the log does not answer now", 5)(known.problem);
    }
  };
};

/**
 * How actions are audited and decisions written: a schema is asked for when first needed, and again
 * after a failure.
 */
const openLogWrites = async (
  config: Config,
  kafka: Kafka,
  scope: Scope,
): Promise<Pick<ApiPorts, "audit" | "decide">> => {
  const { KAFKA_TOPIC_PREFIX: topicPrefix, SCHEMA_REGISTRY_URL: url } = config;
  const producer = await scope.open("producer", () => closing(kafka.producer({ sendDeadlineMs: STORE_MS })));
  const registry = openRegistry({ url, topicPrefix, deadlineMs: STORE_MS });
  const operations = lateWire([topics.operations], registry);
  const decisions = lateWire([decisionTopic], registry);
  return {
    audit: async () => {
      await operations.opened();
      return { wire: operations.wire, produce: producer.send };
    },
    decide: async (made) => {
      await decisions.opened();
      await producer.send(decisionMessages(decisions.wire, made));
    },
  };
};

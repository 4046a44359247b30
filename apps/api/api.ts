// The platform API: opens its stores and the log, serves, and closes them in reverse.
import { derive } from "../../domain/hmac.ts";
import { lateWire } from "../../infra/avro/late-wire.ts";
import { openRegistry } from "../../infra/avro/registry.ts";
import { openApp, serve } from "../../infra/http/app/open-app.ts";
import { unavailable } from "../../infra/http/problem.ts";
import { authenticator, refusals } from "../../infra/http/tokens.ts";
import { openTurns } from "../../infra/http/turns.ts";
import { type Kafka, lastingAdmin, openKafka } from "../../infra/kafka/kafka.ts";
import { need, orUnavailable } from "../../infra/runtime/errors.ts";
import type { Log } from "../../infra/runtime/log.ts";
import { closing, type Scope } from "../../infra/runtime/scope.ts";
import { keepDoing } from "../../infra/runtime/timing/schedule.ts";
import { userOf } from "../../modules/access/users/identity.ts";
import { openPositions } from "../../modules/figures/reads/positions.ts";
import { groupsNow } from "../../modules/log/groups/group-reads.ts";
import { decisionMessages, decisionTopic } from "../../modules/money/decisions/decision-messages.ts";
import { openTrials } from "../../modules/money/trials/open-trials.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import type { Config } from "./config.ts";
import { identify } from "./identity.ts";
import { DEAR } from "./limits.ts";
import { mails } from "./mails.ts";
import type { ApiPorts } from "./route.ts";
import { routesOf } from "./routes.ts";
import { apiApp, type ServerPorts } from "./server.ts";
import { nameOf, openStores, STORE_MS } from "./stores.ts";

/**
 * The main of the process, for `run` of infra/runtime/scope.ts. Returns as soon as it serves: while
 * a store is away, requests are answered 503.
 */
export const api =
  (config: Config, log: Log) =>
  async (scope: Scope): Promise<void> => {
    const opening = { scope, config, log };
    const { startedAt, version, metrics, ready } = await openApp("api", opening);
    metrics.expect({ edges: ["api"] });
    const stores = await openStores(config, log, scope);
    const ports = { version, startedAt, ...(await openPorts(config, stores, log, scope)) };
    const app = apiApp(await routesOf(ports), serverPorts(config, stores, ports, { count: metrics.countRequest, log }));
    const served = await serve(opening, app);
    const { pool, mailer } = stores;
    if (mailer !== undefined)
      await scope.open("mails", () => keepDoing(mails({ ...ports, pool, mailer }), { log, metrics }));
    await ready({ tokens: () => need(stores.areTokensKnown(), "the tokens are not known yet") }, served);
  };

type Stores = Awaited<ReturnType<typeof openStores>>;
type OpenPorts = Omit<ApiPorts, "served" | "version" | "startedAt">;

/** Opens the ports of routes: the stores, the log, and keys for cursors and plans. */
const openPorts = async (config: Config, stores: Stores, log: Log, scope: Scope): Promise<OpenPorts> => {
  const { KAFKA_BROKERS: brokers, KAFKA_TOPIC_PREFIX: topicPrefix, TRIBUTARY_SECRET: keyring } = config;
  const { pool } = stores;
  const kafka = openKafka({ brokers, clientId: nameOf(config), topicPrefix, log });
  const writing = await openLogWrites(config, kafka, scope);
  const logReads = await openLogReads(kafka, scope);
  const registry = openRegistry({ url: config.SCHEMA_REGISTRY_URL, topicPrefix, deadlineMs: STORE_MS });
  const trialSettings = { pool, registry, clickhouseUrl: config.CLICKHOUSE_URL, name: nameOf(config) };
  const keysFor = (purpose: string): readonly Buffer[] => keyring.accepted.map((secret) => derive(secret, purpose));
  return {
    ...stores,
    ...writing,
    trials: await scope.open("trials", () => openTrials(trialSettings)),
    cursorKeys: keysFor("api.cursor"),
    planKeys: keysFor("api.plan"),
    log: logReads,
    positions: openPositions(pool, () =>
      logReads((sources) => groupsNow({ pool, ...sources, topology: pipeline }, Date.now())),
    ),
    keyring,
    portal: config.PORTAL_URL,
    hosts: {
      ...{ tracking: config.TRACKING_URL, pixel: config.PIXEL_URL },
      ...{ ingest: config.INGEST_URL, upload: config.UPLOAD_URL },
    },
  };
};

/** The ports of the checks before a route. */
const serverPorts = (
  config: Config,
  { pool, figures, tokens, leads, limit, planOf, quotas }: Stores,
  { cursorKeys, portal }: OpenPorts,
  { count, log }: Pick<ServerPorts, "count" | "log">,
): ServerPorts => {
  const authenticate = authenticator(tokens, "service");
  return {
    identify: identify({ issuer: config.OIDC_ISSUER, userOf: (...asked) => userOf(pool, ...asked) }),
    isSigned: leads.isSigned,
    refused: refusals(),
    service: async (request) => (await authenticate(request, request.ip ?? "")).token_id,
    files: { underWay: 0 },
    turn: openTurns(DEAR),
    trustedProxies: config.TRUSTED_PROXIES,
    ...{ pool, figures, limit, planOf, quotas, cursorKeys, portal, count, log },
  };
};

/** The plan of a rewind takes a dozen answers of the broker, and some of them read records. */
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
      // The question itself has not failed, so the broker did not answer.
      if (known === undefined) throw unavailable("the log does not answer now", 5);
      return orUnavailable("the log does not answer now", 5)(known.problem);
    }
  };
};

/**
 * Opens the writers of the audit and of decisions. A schema is fetched by the first use, and again
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

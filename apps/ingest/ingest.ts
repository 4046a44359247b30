// apps/ingest/ingest.ts - the ingest host: opens what it needs by name, serves, and closes in reverse.
import { setTimeout as sleep } from "node:timers/promises";
import { batchIdKey } from "../../processors/admit/batch-id.ts";
import { topics } from "../../schemas/generated.ts";
import { openClickhouse } from "../../sinks/clickhouse/client.ts";
import { openReference } from "../../sinks/postgres/reference.ts";
import { openPool } from "../../sinks/postgres/sql.ts";
import { openTokens } from "../../sinks/postgres/tokens.ts";
import type { Admin } from "../../stream/admin.ts";
import { type Kafka, openKafka } from "../../stream/kafka.ts";
import type { Log } from "../../stream/log.ts";
import { openMetrics } from "../../stream/metrics.ts";
import { openOps } from "../../stream/ops.ts";
import { openRegistry } from "../../stream/registry.ts";
import type { Scope } from "../../stream/scope.ts";
import { openWire, type Wire } from "../../stream/wire.ts";
import { listen } from "../http/listen.ts";
import { openRateLimit } from "../http/rate-limit.ts";
import { authenticator } from "../http/tokens.ts";
import { tlsOf } from "../tls.ts";
import { commitOf, versionOf } from "../version.ts";
import { batchRoute } from "./batch.ts";
import type { Config } from "./config.ts";
import { factsOf } from "./facts.ts";
import { healthOf } from "./health.ts";
import { progressOf } from "./progress.ts";
import { receiptsRoute } from "./receipts.ts";
import { ingestApp } from "./server.ts";

const REQUESTS_A_MINUTE = { limit: 100, windowMs: 60_000 };
const WAITING_TOLD_MS = 5_000;

/** What `run` of stream/scope.ts runs. Returns once it serves, which is at once: stores that are away make it answer 503, not fail. */
export const ingest =
  (config: Config, log: Log) =>
  async (scope: Scope): Promise<void> => {
    const startedAt = Date.now();
    const version = versionOf();
    const metrics = openMetrics({ app: "ingest", version, commit: commitOf() });
    const told = (what: string) => (error: unknown) => log.warn(`${what}.not_refreshed`, { error });

    // Opened first and closed last: /livez and /metrics answer while the rest starts and ends.
    const checks: Record<string, () => void> = { started: () => need(false, "the app is starting") };
    const ops = await scope.open("ops", async () =>
      closing(await openOps({ port: config.OPS_PORT, host: config.HOST, metrics, checks, ...tlsOf(config, log) })),
    );

    const pool = await scope.open("postgres", () => {
      const value = openPool(config.POSTGRES_URL, { name: `tributary-${config.INSTANCE_NAME}`, max: 3, timeoutMs: 2_000 });
      return { value, stop: () => value.end() };
    });
    const tokens = await scope.open("tokens", () => closing(openTokens(pool, { onError: told("tokens") })));
    const reference = await scope.open("reference", () => closing(openReference(pool, { onError: told("reference") })));
    const clickhouse = await scope.open("clickhouse", () =>
      closing(openClickhouse(config.CLICKHOUSE_URL, { connections: 1, timeoutMs: 2_000 })),
    );
    const rateLimit = await scope.open("redis", () => closing(openRateLimit(config.REDIS_URL, REQUESTS_A_MINUTE, log)));
    const kafka = openKafka({
      brokers: config.KAFKA_BROKERS,
      clientId: `tributary-${config.INSTANCE_NAME}`,
      topicPrefix: config.KAFKA_TOPIC_PREFIX,
      log,
    });
    const producer = await scope.open("producer", () => closing(kafka.producer()));
    // Its own, so that a probe says how the log is and not how long the queue towards it.
    const prober = await scope.open("prober", () => closing(kafka.producer({ publishDeadlineMs: 1_500 })));
    const admin = await scope.open("admin", () => lasting(kafka));
    const wire = await scope.open("wire", () => resolving(config, log));

    const health = healthOf({
      version,
      startedAt,
      analytics: async () => void (await clickhouse.query({ query: "SELECT 1", format: "JSONCompact" }).then((answer) => answer.json())),
      cache: rateLimit.ping,
      relational: async () => void (await pool.query("select 1")),
      backbone: () => prober.publish([{ topic: "probe", key: null, value: Buffer.from(config.INSTANCE_NAME) }]),
      admin,
    });
    const authenticate = authenticator(tokens, "ingest");
    const batchIds = batchIdKey(config.TRIBUTARY_SECRET);
    const receipts = receiptsRoute({ authenticate, key: batchIds, clickhouse, progress: progressOf(admin), log });
    const batch = batchRoute({
      authenticate,
      limit: rateLimit.take,
      facts: factsOf(config.TRIBUTARY_SECRET, reference.reference),
      wire,
      batchIdKey: batchIds,
      publish: producer.publish,
      isLogAvailable: producer.isAvailable,
      count: metrics.countRequest,
      log,
    });
    const server = await scope.open("server", async () =>
      closing(
        await listen(ingestApp({ batch, receipts, health }, config.TRUSTED_PROXIES, log), {
          host: config.HOST,
          port: config.PORT,
          ...tlsOf(config, log),
        }),
      ),
    );
    await scope.open("waiting", () => {
      const timer = setInterval(() => metrics.setWaiting(producer.waiting().messages, 0), WAITING_TOLD_MS);
      return { value: timer, stop: () => clearInterval(timer) };
    });
    // Closed first: readiness is red before the port takes no more.
    await scope.open("readiness", () => ({ value: ops, stop: ops.drain }));
    checks.schemas = () => need(wire() !== undefined, "the schema ids are not known yet");
    checks.clients = () => need(reference.reference() !== undefined, "the clients are not known yet");
    delete checks.started;
    log.info("app.started", { version, port: server.port, ops_port: ops.port });
  };

const closing = <T extends { readonly close: () => Promise<void> | void }>(value: T) => ({ value, stop: () => value.close() });

const need = (isSo: boolean, otherwise: string): void => {
  if (!isSo) throw new Error(otherwise);
};

/** The ids of the schemas are asked for until the registry knows them: an edge starts, and answers 503, while its stores are still away. */
const resolving = (config: Config, log: Log): { value: () => Wire | undefined; stop: () => Promise<void> } => {
  const registry = openRegistry({ url: config.SCHEMA_REGISTRY_URL, topicPrefix: config.KAFKA_TOPIC_PREFIX, deadlineMs: 2_000 });
  const stopped = new AbortController();
  let wire: Wire | undefined;
  const resolve = async (): Promise<void> => {
    while (wire === undefined && !stopped.signal.aborted) {
      try {
        wire = await openWire([topics.eventsRaw], registry);
      } catch (error) {
        log.warn("wire.not_open", { error });
        await sleep(1_000, undefined, { signal: stopped.signal }).catch(() => undefined);
      }
    }
  };
  const resolved = resolve();
  return {
    value: () => wire,
    stop: () => {
      stopped.abort();
      return resolved;
    },
  };
};

/** One connection for the questions of the health report, opened when first asked and again after it has failed. */
const lasting = (kafka: Kafka): { value: () => Promise<Admin>; stop: () => Promise<void> } => {
  let opened: Promise<Admin> | undefined;
  const open = (): Promise<Admin> => {
    opened ??= kafka.admin().catch((error) => {
      opened = undefined;
      throw error;
    });
    return opened;
  };
  return { value: open, stop: async () => (await opened?.catch(() => undefined))?.close() };
};

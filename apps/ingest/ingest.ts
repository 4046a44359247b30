// The ingest host: opens what it needs by name, serves, and closes in reverse.
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openRegistry, type Registry } from "../../infra/avro/registry.ts";
import { openWire, wireWithoutIds } from "../../infra/avro/wire.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { listen } from "../../infra/http/listen.ts";
import { openRateLimit } from "../../infra/http/rate-limit.ts";
import { need, openOps } from "../../infra/http/side-port.ts";
import { authenticator } from "../../infra/http/tokens.ts";
import { type Admin, type Kafka, openKafka } from "../../infra/kafka/kafka.ts";
import { openObjects } from "../../infra/objects/open.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import type { Log } from "../../infra/runtime/log.ts";
import { openMetrics } from "../../infra/runtime/metrics.ts";
import { closing, type Scope } from "../../infra/runtime/scope.ts";
import { tlsOf } from "../../infra/runtime/tls-files.ts";
import { commitOf, versionOf } from "../../infra/runtime/version.ts";
import { lastResortHeld, openLastResort } from "../../infra/spool/last-resort.ts";
import { sendWithSchemaIds } from "../../infra/spool/send-with-schema-ids.ts";
import { openSpool } from "../../infra/spool/spool.ts";
import { openTokens } from "../../modules/access/tokens.ts";
import { letterDepth } from "../../modules/dead-letters/letter-index.ts";
import { factsOf } from "../../modules/edges/facts.ts";
import { recordIngestPath } from "../../modules/edges/ingest-path.ts";
import { openPath } from "../../modules/edges/path.ts";
import { openPathChecks } from "../../modules/edges/path-checks.ts";
import { hostsNow, recordedHostings } from "../../modules/groups/hosts.ts";
import { progressOf } from "../../modules/receipts/progress.ts";
import { openReference } from "../../modules/reference/reference.ts";
import { replayableSinks } from "../../modules/replays/report.ts";
import { batchIdKey } from "../../processors/admit/batch-id.ts";
import type { Wire } from "../../stream/wire.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import type { Config } from "./config.ts";
import { batchRoute, REQUESTS_A_MINUTE } from "./edges/batch.ts";
import { healthOf } from "./routes/health.ts";
import { receiptsRoute } from "./routes/receipts.ts";
import { walReplayRoutes } from "./routes/wal-replay.ts";
import { ingestApp } from "./server.ts";

const MINUTE = { limit: REQUESTS_A_MINUTE, windowMs: 60_000 };
const WAITING_TOLD_MS = 5_000;
/**
 * New events wait this long at most while the last ones that waited are sent; then they are stored
 * where they would have been before.
 */
const DRAIN_MS = 4_000;
const REGISTRY_MS = 3_000;
const LEAVE_MS = 1_000;

/**
 * What `run` of infra/runtime/scope.ts runs. Returns once it serves, which is at once: stores that
 * are away make it answer 503, not fail.
 */
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
      const value = openPool(config.POSTGRES_URL, {
        name: `tributary-${config.INSTANCE_NAME}`,
        max: 3,
        timeoutMs: 2_000,
      });
      return { value, stop: () => value.end() };
    });
    const tokens = await scope.open("tokens", () => closing(openTokens(pool, { onError: told("tokens") })));
    const reference = await scope.open("reference", () => closing(openReference(pool, { onError: told("reference") })));
    const clickhouse = await scope.open("clickhouse", () =>
      closing(openClickhouse(config.CLICKHOUSE_URL, { connections: 1, timeoutMs: 2_000 })),
    );
    const rateLimit = await scope.open("redis", () => closing(openRateLimit(config.REDIS_URL, MINUTE, log)));
    const kafka = openKafka({
      brokers: config.KAFKA_BROKERS,
      clientId: `tributary-${config.INSTANCE_NAME}`,
      topicPrefix: config.KAFKA_TOPIC_PREFIX,
      log,
    });
    const producer = await scope.open("producer", () => closing(kafka.producer()));
    // Its own, so that a probe says how the log is and not how long the queue towards it.
    const prober = await scope.open("prober", () => closing(kafka.producer({ publishDeadlineMs: 1_500 })));
    // Its own too: what waits is sent in order and awaited, beside requests that have a deadline.
    const drainer = await scope.open("drainer", () => closing(kafka.producer({ sendDeadlineMs: DRAIN_MS })));
    const probe = () => prober.publish([{ topic: "probe", key: null, value: Buffer.from(config.INSTANCE_NAME) }]);
    const admin = await scope.open("admin", () => lasting(kafka));
    const registry = openRegistry({
      url: config.SCHEMA_REGISTRY_URL,
      topicPrefix: config.KAFKA_TOPIC_PREFIX,
      deadlineMs: 2_000,
    });
    const wire = await scope.open("wire", () => resolving(registry, log));
    const objects = await scope.open("objects", () => closing(openObjects(config.OBJECT_STORE_URL)));
    const schemas = { [topics.eventsRaw.name]: topics.eventsRaw.schema };
    const path = await scope.open("path", () =>
      openPath({
        publish: producer.publish,
        send: sendWithSchemaIds(registry, drainer.send),
        probe,
        isNamed: wire.isNamed,
        openSpool: () =>
          openSpool({
            folder: resolve(config.TRIBUTARY_HOME ?? ".tributary", "spool", config.INSTANCE_NAME),
            schemas,
            onTorn: (torn) => log.warn("spool.tail_cut", torn),
            onUnmarked: (error) => log.warn("spool.not_marked", { error }),
          }),
        lastResort: openLastResort({
          objects,
          instance: config.INSTANCE_NAME,
          schemas,
          onDamaged: (key, error) => log.error("last_resort.damaged", { object: key, error }),
        }),
        log,
      }),
    );

    await scope.open("path-checks", () =>
      openPathChecks({
        instance: config.INSTANCE_NAME,
        state: path.state,
        probe,
        record: (check) => recordIngestPath(pool, check),
        log,
        now: Date.now,
      }),
    );

    const recorded = recordedHostings(pool);
    // Asked once at the start, so that the answer stands should Postgres be away later.
    void recorded().catch(told("hosting"));
    const hosts = () =>
      hostsNow({
        topology: pipeline,
        recorded,
        describeGroups: async (groups) => (await admin()).describeGroups(groups),
      });
    const health = healthOf({
      version,
      startedAt,
      analytics: async () =>
        void (await clickhouse.query({ query: "SELECT 1", format: "JSONCompact" }).then((answer) => answer.json())),
      cache: rateLimit.ping,
      relational: async () => void (await pool.query("select 1")),
      backbone: probe,
      objects: () => objects.put(`probe/${config.INSTANCE_NAME}`, Buffer.from(new Date().toISOString())),
      lastResort: async () => (await lastResortHeld(objects)).byLabel,
      letters: async () => ({ ...(await letterDepth(pool)) }),
      path: path.state,
      admin,
      hosts,
    });
    const authenticate = authenticator(tokens, "ingest");
    const batchIds = batchIdKey(config.TRIBUTARY_SECRET);
    const receipts = receiptsRoute({
      authenticate,
      key: batchIds,
      clickhouse,
      progress: progressOf({ admin, hosts, isHolding: () => path.state().active }),
      log,
    });
    const batch = batchRoute({
      authenticate,
      limit: rateLimit.take,
      facts: factsOf(config.TRIBUTARY_SECRET, reference.reference),
      wire: wire.wire,
      batchIdKey: batchIds,
      path,
      count: metrics.countRequest,
    });
    const walReplay = walReplayRoutes({
      authenticate: authenticator(tokens, "admin"),
      pool,
      sinks: replayableSinks(pipeline).map(({ name }) => name),
      closing: scope.closing,
      log,
    });
    const server = await scope.open("server", async () =>
      closing(
        await listen(ingestApp({ batch, receipts, health, walReplay }, config.TRUSTED_PROXIES, log), {
          host: config.HOST,
          port: config.PORT,
          ...tlsOf(config, log),
        }),
      ),
    );
    await scope.open("waiting", () => {
      const timer = setInterval(() => {
        const { active, spooledEvents, lastResortEvents } = path.state();
        metrics.setWaiting({
          inFlight: producer.waiting().messages,
          spooled: spooledEvents,
          lastResort: lastResortEvents,
          isFailover: active,
        });
      }, WAITING_TOLD_MS);
      return { value: timer, stop: () => clearInterval(timer) };
    });
    // Closed first: readiness is red before the port takes no more.
    await scope.open("readiness", () => ({ value: ops, stop: ops.drain }));
    // Without the registry events are stored all the same; only a start waits for it a moment, so
    // that an edge does not begin in failover.
    checks.schemas = () =>
      need(wire.isNamed() || Date.now() - startedAt > REGISTRY_MS, "the schema ids are not known yet");
    checks.storing = path.expectRoom;
    checks.clients = () => need(reference.reference() !== undefined, "the clients are not known yet");
    delete checks.started;
    log.info("app.started", { version, port: server.port, ops_port: ops.port });
  };

/**
 * The ids of the schemas are asked for until the registry knows them; before that values are stored
 * without.
 */
const resolving = (
  registry: Registry,
  log: Log,
): { value: { readonly wire: () => Wire; readonly isNamed: () => boolean }; stop: () => Promise<void> } => {
  const stopped = new AbortController();
  let wire = wireWithoutIds([topics.eventsRaw]);
  let isNamed = false;
  const ask = async (): Promise<void> => {
    while (!isNamed && !stopped.signal.aborted) {
      try {
        wire = await openWire([topics.eventsRaw], registry);
        isNamed = true;
      } catch (error) {
        log.warn("wire.not_open", { error });
        await sleep(1_000, undefined, { signal: stopped.signal }).catch(() => undefined);
      }
    }
  };
  const asked = ask();
  return {
    value: { wire: () => wire, isNamed: () => isNamed },
    stop: () => {
      stopped.abort();
      return asked;
    },
  };
};

/**
 * One connection for the questions of the health report, opened when first asked and again after it
 * has failed.
 */
const lasting = (kafka: Kafka): { value: () => Promise<Admin>; stop: () => Promise<void> } => {
  let opened: Promise<Admin> | undefined;
  const open = (): Promise<Admin> => {
    opened ??= kafka.admin().catch((error) => {
      opened = undefined;
      throw error;
    });
    return opened;
  };
  // A log that stands still answers neither the connecting nor the leaving.
  const leave = async (): Promise<void> => (await opened?.catch(() => undefined))?.close();
  return { value: open, stop: () => Promise.race([leave(), sleep(LEAVE_MS, undefined, { ref: false })]) };
};

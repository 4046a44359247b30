// The ingest host: opens what it needs by name, serves, and closes in reverse.
import { openRegistry } from "../../infra/avro/registry.ts";
import { listen } from "../../infra/http/listen.ts";
import { need, openOps } from "../../infra/http/side-port.ts";
import { authenticator } from "../../infra/http/tokens.ts";
import type { Log } from "../../infra/runtime/log.ts";
import { type Metrics, openMetrics } from "../../infra/runtime/metrics.ts";
import { closing, type Scope } from "../../infra/runtime/scope.ts";
import { tlsOf } from "../../infra/runtime/tls.ts";
import { commitOf, versionOf } from "../../infra/runtime/version.ts";
import { lastResortHeld } from "../../infra/spool/last-resort.ts";
import { letterDepth } from "../../modules/dead-letters/letter-index.ts";
import { factsOf } from "../../modules/edges/facts.ts";
import { recordIngestPath } from "../../modules/edges/ingest-path.ts";
import { openPathChecks } from "../../modules/edges/path-checks.ts";
import { openWay, reportWaiting, type Way } from "../../modules/edges/way.ts";
import { type Hosts, hostsNow, recordedHostings } from "../../modules/groups/hosts.ts";
import { progressOf } from "../../modules/receipts/progress.ts";
import { replayableSinks } from "../../modules/replays/report.ts";
import { openTrials, type TrialSettings } from "../../modules/rules/open-trials.ts";
import { batchIdKey } from "../../processors/admit/batch-id.ts";
import { pipeline } from "../../topology.ts";
import type { Config } from "./config.ts";
import { openEdges } from "./edges.ts";
import { type Opening, openStores, type Stores } from "./opened.ts";
import { backfillRoute } from "./routes/backfill.ts";
import { healthOf } from "./routes/health.ts";
import { receiptsRoute } from "./routes/receipts.ts";
import { walReplayRoutes } from "./routes/wal-replay.ts";
import { ingestApp, type Routes } from "./server.ts";

const REGISTRY_MS = 3_000;

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
    // Opened first and closed last: /livez and /metrics answer while the rest starts and ends.
    const checks: Record<string, () => void> = { started: () => need(false, "the app is starting") };
    const ops = await scope.open("ops", async () =>
      closing(await openOps({ ...config.OPS_PORT, metrics, checks, ...tlsOf(config, log) })),
    );
    const opening = { scope, config, log };
    const stores = await openStores(opening);
    const way = await openWay(opening);
    const { path, wire } = way;
    await scope.open("path-checks", () =>
      openPathChecks({
        instance: config.INSTANCE_NAME,
        state: path.state,
        probe: way.probe,
        record: (check) => recordIngestPath(stores.pool, check),
        log,
        now: Date.now,
      }),
    );
    const routes = await openRoutes(opening, stores, way, { startedAt, version, metrics });
    const server = await scope.open("server", async () =>
      closing(
        await listen(ingestApp(routes, config.TRUSTED_PROXIES, log), {
          host: config.HOST,
          port: config.PORT,
          ...tlsOf(config, log),
        }),
      ),
    );
    await scope.open("waiting", () => reportWaiting(way, metrics));
    // Closed first: readiness is red before the port takes no more.
    await scope.open("readiness", () => ({ value: ops, stop: ops.drain }));
    // Without the registry events are stored all the same; only a start waits for it a moment, so
    // that an edge does not begin in failover.
    checks.schemas = () =>
      need(wire.isNamed() || Date.now() - startedAt > REGISTRY_MS, "the schema ids are not known yet");
    checks.storing = path.expectRoom;
    checks.clients = () => need(stores.reference.reference() !== undefined, "the clients are not known yet");
    checks.secrets = () => need(stores.secrets.isConfirmed(), "the pepper is not confirmed yet");
    delete checks.started;
    log.info("app.started", { version, port: server.port, ops_port: ops.port });
  };

interface Serving {
  readonly startedAt: number;
  readonly version: string;
  readonly metrics: Metrics;
}

const openRoutes = async (opening: Opening, stores: Stores, way: Way, serving: Serving): Promise<Routes> => {
  const { scope, config, log } = opening;
  const authenticate = authenticator(stores.tokens, "ingest");
  const { newest, accepted } = config.TRIBUTARY_SECRET;
  const hosts = hostsOf(opening, stores, way);
  return {
    edges: await openEdges({
      authenticate,
      limit: stores.rateLimit.take,
      facts: factsOf(stores.secrets.pepper, stores.reference.reference),
      wire: way.wire.wire,
      batchIdKey: batchIdKey(newest),
      path: way.path,
      count: serving.metrics.countRequest,
    }),
    receipts: receiptsRoute({
      authenticate,
      keys: accepted.map(batchIdKey),
      clickhouse: stores.clickhouse,
      progress: progressOf({ admin: way.admin, hosts, isHolding: () => way.path.state().active }),
      log,
    }),
    health: healthRoute(opening, stores, way, serving, hosts),
    walReplay: walReplayRoutes({
      authenticate: authenticator(stores.tokens, "admin"),
      pool: stores.pool,
      sinks: replayableSinks(pipeline).map(({ name }) => name),
      closing: scope.closing,
      log,
    }),
    backfill: backfillRoute({
      authenticate: authenticator(stores.tokens, "admin"),
      pool: stores.pool,
      trials: await scope.open("trials", () => openTrials(trialsOf(config, stores))),
    }),
  };
};

const trialsOf = ({ INSTANCE_NAME, ...config }: Config, { pool }: Stores): TrialSettings => {
  const { SCHEMA_REGISTRY_URL: url, KAFKA_TOPIC_PREFIX: topicPrefix, CLICKHOUSE_URL: clickhouseUrl } = config;
  const registry = openRegistry({ url, topicPrefix, deadlineMs: REGISTRY_MS });
  return { pool, registry, clickhouseUrl, name: `tributary-${INSTANCE_NAME}` };
};

/** Asked once at the start, so that the answer stands if Postgres is away later. */
const hostsOf = ({ log }: Opening, { pool }: Stores, { admin }: Way): (() => Promise<Hosts>) => {
  const recorded = recordedHostings(pool);
  void recorded().catch((error) => log.warn("hosting.not_known", { error }));
  return () =>
    hostsNow({
      topology: pipeline,
      recorded,
      describeGroups: async (groups) => (await admin()).describeGroups(groups),
    });
};

const healthRoute = (
  { config }: Opening,
  { clickhouse, pool, rateLimit }: Stores,
  { admin, objects, path, probe }: Way,
  { version, startedAt }: Serving,
  hosts: () => Promise<Hosts>,
) =>
  healthOf({
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

// The ingest host: opens its resources by name, serves, and closes them in reverse.
import { edges } from "../../edges.ts";
import { openRegistry } from "../../infra/avro/registry.ts";
import { pingClickhouse } from "../../infra/clickhouse/ping.ts";
import { type App, openApp, serve } from "../../infra/http/app/open-app.ts";
import { authenticator } from "../../infra/http/tokens.ts";
import { pingPostgres } from "../../infra/postgres/ping.ts";
import { need } from "../../infra/runtime/errors.ts";
import type { Log } from "../../infra/runtime/log.ts";
import { homeFolderOf, watchDisks } from "../../infra/runtime/metrics/disk-room.ts";
import type { Scope } from "../../infra/runtime/scope.ts";
import { lastResortHeld } from "../../infra/spool/last-resort.ts";
import { progressOf } from "../../modules/figures/receipts/progress.ts";
import { type Edge, openEdge } from "../../modules/intake/path/edge.ts";
import { awaitInForceOf, clientFactsOf, factsOf } from "../../modules/intake/path/facts.ts";
import { openLookUp } from "../../modules/intake/payment-notices/look-up.ts";
import { openMarks } from "../../modules/intake/payment-notices/marks.ts";
import { openProviders } from "../../modules/intake/payment-notices/provider-settings.ts";
import { pullHealth } from "../../modules/intake/pulls/pull-health.ts";
import { openPayloads } from "../../modules/intake/sources/payloads.ts";
import { openCounts } from "../../modules/log/dead-letters/letter-index.ts";
import { type Hosts, hostsNow, recordedHostings } from "../../modules/log/groups/hosts.ts";
import { replayableSinks } from "../../modules/log/replays/report.ts";
import { openTrials, type TrialSettings } from "../../modules/money/trials/open-trials.ts";
import { batchIdKey } from "../../processors/admit/batch-id.ts";
import { pipeline } from "../../topology.ts";
import type { Config } from "./config.ts";
import { type EdgeParts, openEdges } from "./edges.ts";
import { backfillRoute } from "./routes/backfill.ts";
import { healthOf } from "./routes/health.ts";
import { pullTriggerRoute } from "./routes/pull-trigger.ts";
import { receiptsRoute } from "./routes/receipts.ts";
import { walReplayRoutes } from "./routes/wal-replay.ts";
import { ingestHost, type Routes } from "./server.ts";
import { type Opening, openStores, type Stores } from "./stores.ts";

const REGISTRY_MS = 3_000;

/**
 * The app, for `run` of infra/runtime/scope.ts. It serves at once: while stores are away, requests
 * are answered 503.
 */
export const ingest =
  (config: Config, log: Log) =>
  async (scope: Scope): Promise<void> => {
    const opening = { scope, config, log };
    const app = await openApp("ingest", opening);
    await scope.open("disks", () => watchDisks({ home: homeFolderOf(config) }, app.metrics));
    const edge = await openEdge({ ...opening, edges, metrics: app.metrics, connections: 3 });
    const stores = await openStores(opening, edge);
    const routes = await openRoutes(opening, { app, edge, stores });
    app.metrics.expect({ edges: routes.edges.map(({ name }) => name) });
    const served = await serve(opening, ingestHost(routes, config.TRUSTED_PROXIES, log));
    const clients = () => need(stores.reference.reference() !== undefined, "the clients are not known yet");
    await app.ready({ ...edge.checks, clients }, served);
  };

interface IngestParts {
  readonly app: App;
  readonly edge: Edge;
  readonly stores: Stores;
}

const openRoutes = async (opening: Opening, opened: IngestParts): Promise<Routes> => {
  const { scope, config, log } = opening;
  const { edge, stores } = opened;
  const { pool, way } = edge;
  const hosts = hostsOf(opening, opened);
  const authenticate = authenticator(stores.tokens, "ingest");
  return {
    edges: await openEdges({ authenticate, ...edgeParts(opening, opened) }),
    receipts: receiptsRoute({
      authenticate,
      keys: config.TRIBUTARY_SECRET.accepted.map(batchIdKey),
      clickhouse: stores.clickhouse,
      progress: progressOf({ admin: stores.admin, hosts, isHolding: () => way.path.state().active }),
      log,
    }),
    health: healthRoute(config, opened, hosts),
    walReplay: walReplayRoutes({
      authenticate: authenticator(stores.tokens, "admin"),
      pool,
      sinks: replayableSinks(pipeline).map(({ name }) => name),
      closing: scope.closing,
      log,
    }),
    pullTrigger: pullTriggerRoute({ authenticate: authenticator(stores.tokens, "admin"), pool }),
    backfill: backfillRoute({
      authenticate: authenticator(stores.tokens, "admin"),
      pool,
      trials: await scope.open("trials", () => openTrials(trialsOf(config, edge))),
    }),
  };
};

const edgeParts = ({ config, log }: Opening, { app, edge, stores }: IngestParts): Omit<EdgeParts, "authenticate"> => {
  const { pool, way } = edge;
  const { reference } = stores.reference;
  const inForce = awaitInForceOf(stores.reference);
  const { TRIBUTARY_SECRET: keyring } = config;
  return {
    uploads: { authenticate: authenticator(stores.tokens, "upload"), pool, objects: way.objects, reference, inForce },
    limit: stores.rateLimit.take,
    facts: factsOf(edge.secrets.pepper, reference),
    clientFacts: clientFactsOf(edge.secrets.pepper, reference),
    inForce,
    processors: openProviders(pool, keyring),
    lookUp: openLookUp(log, config.MERCADOPAGO_URL),
    sources: stores.sources,
    keepPayload: openPayloads(pool, log),
    quotas: stores.quotas,
    marks: openMarks(pool, log),
    keyring,
    wire: way.wire.wire,
    batchIdKey: batchIdKey(keyring.newest),
    path: way.path,
    count: app.metrics.countRequest,
  };
};

const trialsOf = ({ INSTANCE_NAME, ...config }: Config, { pool }: Edge): TrialSettings => {
  const { SCHEMA_REGISTRY_URL: url, KAFKA_TOPIC_PREFIX: topicPrefix, CLICKHOUSE_URL: clickhouseUrl } = config;
  const registry = openRegistry({ url, topicPrefix, deadlineMs: REGISTRY_MS });
  return { pool, registry, clickhouseUrl, name: `tributary-${INSTANCE_NAME}` };
};

/** Read once at the start, so that the hosting is known if Postgres is away later. */
const hostsOf = ({ log }: Opening, { edge: { pool }, stores: { admin } }: IngestParts): (() => Promise<Hosts>) => {
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
  { INSTANCE_NAME }: Config,
  { app: { version, startedAt }, edge: { pool, way }, stores: { admin, clickhouse, rateLimit } }: IngestParts,
  hosts: () => Promise<Hosts>,
) => {
  const { objects, path, probe } = way;
  return healthOf({
    version,
    startedAt,
    analytics: () => pingClickhouse(clickhouse),
    cache: rateLimit.ping,
    relational: () => pingPostgres(pool),
    backbone: probe,
    objects: () => objects.put(`probe/${INSTANCE_NAME}`, Buffer.from(new Date().toISOString())),
    lastResort: async () => (await lastResortHeld(objects)).byLabel,
    letters: async () => {
      const { depth, fewStrangers } = await openCounts(pool);
      return { ...depth, fewStrangers };
    },
    path: path.state,
    admin,
    hosts,
    pulls: () => pullHealth(pool),
  });
};

// Opens what self-repair needs: its own connection to each store, a way to restart it, the delivery
// of alerts, and a schedule for each store.
import { Redis } from "ioredis";
import type { Pool } from "pg";
import { openClickhouse } from "../../../infra/clickhouse/client.ts";
import { type Admin, type Kafka, lastingAdmin } from "../../../infra/kafka/kafka.ts";
import { openObjects } from "../../../infra/objects/open.ts";
import { durableMarks } from "../../../infra/postgres/durable-memory.ts";
import { openPool } from "../../../infra/postgres/sql.ts";
import { marksOf } from "../../../infra/redis/forget.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import type { Metrics } from "../../../infra/runtime/metrics.ts";
import type { Schedule } from "../../../infra/runtime/timing/schedule.ts";
import { renewServiceToken } from "../../../modules/access/tokens/tokens.ts";
import type { Alert } from "../../../modules/base/alerts/alert.ts";
import { openDelivery } from "../../../modules/base/alerts/delivery.ts";
import { unmailedAlerts } from "../../../modules/base/alerts/kept-alerts.ts";
import { type Mailer, openMailer } from "../../../modules/base/alerts/mail.ts";
import { sendToApi } from "../../../modules/base/alerts/send-to-api.ts";
import { ingestPath } from "../../../modules/intake/path/ingest-path.ts";
import { recordIngestPath } from "../../../modules/intake/path/path-checks.ts";
import { hostsNow, recordedHostings } from "../../../modules/log/groups/hosts.ts";
import { LOG_INTERVAL_MS, type ProbeName, probeNames } from "../../../modules/running/repair/incident.ts";
import { openLogProbe } from "../../../modules/running/repair/log-probe.ts";
import { releaseProbes, saveProbe, takeProbe } from "../../../modules/running/repair/probe-states.ts";
import { openProbes } from "../../../modules/running/repair/probes.ts";
import { restartOf } from "../../../modules/running/repair/restarts.ts";
import { type Repair, selfRepair } from "../../../modules/running/repair/self-repair.ts";
import {
  openStandingGroups,
  type StandingSources,
  standingPorts,
} from "../../../modules/running/repair/standing-groups.ts";
import { readIntoClickhouse, syncLagOf } from "../../../modules/running/repair/sync-lag.ts";
import { pipeline } from "../../../topology.ts";
import type { Config } from "../config.ts";
import { type LocalStack, localStack } from "../local-stack.ts";
import { ADDRESSES, addressChecks } from "./ingest-addresses.ts";

export interface RepairPorts {
  readonly config: Pick<
    Config,
    | "INSTANCE_NAME"
    | "KAFKA_TOPIC_PREFIX"
    | "POSTGRES_URL"
    | "CLICKHOUSE_URL"
    | "REDIS_URL"
    | "OBJECT_STORE_URL"
    | "SMTP_URL"
    | "DOCS_URL"
    | "RESTART_COMMAND"
    | "TRIBUTARY_HOME"
  >;
  /**
   * The base URL of the platform API; by default that of the embedded stack, if this process runs
   * on one.
   */
  readonly apiUrl?: string | undefined;
  /** The base URLs of the ingest host, the primary first; empty: none is checked. */
  readonly ingestUrls?: readonly string[];
  readonly kafka: Pick<Kafka, "admin" | "producer" | "replay">;
  readonly log: Log;
  readonly metrics: Pick<Metrics, "setProbe" | "countRestart" | "setSyncLag" | "setKnown">;
  /** Only tests shorten it. */
  readonly timing?: Repair["timing"];
}

/** Shorter than a probe's 10 s, so that the store's own error is reported. */
const STORE_MS = 8_000;
const LAG_MS = 5_000;
const LEVELS = { healthy: 0, failing: 1, restarting: 2, down: 3 } as const;

/** Connects to nothing yet, because it must start while stores are away. */
export const openRepairs = (ports: RepairPorts) => {
  const { config, log } = ports;
  const stores = openStores(ports);
  const { pool } = stores;
  const mailer = openMailer(config.SMTP_URL, config.DOCS_URL);
  const stack = config.TRIBUTARY_HOME === undefined ? undefined : localStack(config.TRIBUTARY_HOME);
  const { report, ensureToken } = openReporting(ports, pool, mailer, stack);
  const lag = openSyncLag(ports, pool);
  const logProbe = openLogProbe(ports.kafka, config.INSTANCE_NAME);
  const { INSTANCE_NAME: instance, KAFKA_TOPIC_PREFIX: topicPrefix } = config;
  const positions = lastingAdmin(ports.kafka, LAG_MS);
  const looks = openProbes({
    ...{ instance, topicPrefix, ...stores },
    ...{ syncLag: lag.ask, readIntoClickhouse: lag.readIntoClickhouse, eventLog: logProbe.look },
    eventProcessing: openStandingGroups(
      standingPorts({ pool, ask: positions.ask, marks: marksIn(stores, topicPrefix) }),
    ),
  });
  const book = bookIn(pool, instance, mailer !== undefined);
  const schedules = probeNames.map((probe) =>
    repairOf(probe, ports, { look: looks[probe], restart: restartCounted(probe, ports, stack), book, report }),
  );
  const { ingestUrls = [] } = ports;
  const ingest = addressChecks({
    addresses: ingestUrls,
    known: async () => (await ingestPath(pool)).instances.find((one) => one.instance === ADDRESSES),
    record: (check) => recordIngestPath(pool, check),
    report,
    now: Date.now,
  });
  return {
    schedules: ingestUrls.length === 0 ? schedules : [...schedules, ingest],
    start: () => void ensureToken().catch((error: unknown) => log.warn("token.not_made", { error })),
    close: async (): Promise<void> => {
      await releaseProbes(pool, instance).catch(() => undefined);
      stores.redis.disconnect();
      mailer?.close();
      await Promise.all([
        positions.close(),
        lag.close(),
        logProbe.close(),
        stores.clickhouse.close(),
        stores.objects.close(),
        pool.end(),
      ]);
    },
  };
};

/** Without a mailer no alert counts as unmailed. */
const bookIn = (pool: Pool, instance: string, canMail: boolean): Repair["book"] => ({
  take: (probe, leaseMs) => takeProbe(pool, probe, instance, leaseMs),
  save: (row, alerts, leaseMs) => saveProbe(pool, row, alerts, instance, leaseMs),
  unmailed: async (probe) => (canMail ? unmailedAlerts(pool, probe) : []),
});

/** Restarts the store of a probe if this process can, and counts each restart. */
const restartCounted =
  (probe: ProbeName, { config, log, metrics }: RepairPorts, stack: LocalStack | undefined): Repair["restart"] =>
  () => {
    const restart = restartOf(probe, { command: config.RESTART_COMMAND, stack: stack?.restart, log });
    if (restart === undefined) return undefined;
    return () => {
      metrics.countRestart(probe);
      return restart();
    };
  };

const repairOf = (
  probe: ProbeName,
  { log, metrics, timing }: RepairPorts,
  means: Pick<Repair, "look" | "restart" | "book" | "report">,
): Schedule =>
  selfRepair({
    name: probe,
    ...means,
    log,
    show: ({ state }) => metrics.setProbe(probe, LEVELS[state]),
    timing: { ...(isOfLog(probe) && { intervalMs: LOG_INTERVAL_MS }), ...timing },
  });

const isOfLog = (probe: ProbeName): boolean => probe === "event_log" || probe === "event_processing";

const openStores = ({ config, log }: RepairPorts) => {
  const name = `tributary-${config.INSTANCE_NAME}-probe`;
  const pool = openPool(config.POSTGRES_URL, { name, max: 3, timeoutMs: STORE_MS });
  const clickhouse = openClickhouse(config.CLICKHOUSE_URL, { name, connections: 2, timeoutMs: STORE_MS - 3_000 });
  const redis = new Redis(config.REDIS_URL, {
    lazyConnect: true,
    commandTimeout: STORE_MS,
    connectTimeout: STORE_MS,
    maxRetriesPerRequest: null,
  });
  // The probe reports the error once.
  redis.on("error", (error) => log.debug("redis.error", { error }));
  return { pool, clickhouse, redis, objects: openObjects(config.OBJECT_STORE_URL) };
};

/** How far stages remember, which moves while a memory is rebuilt. */
const marksIn = (
  { redis, pool }: Pick<ReturnType<typeof openStores>, "redis" | "pool">,
  topicPrefix: string,
): StandingSources["marks"] => ({
  fast: (stage, topic) => marksOf(redis, `${topicPrefix}memory`, stage, topic),
  durable: (stage, topic) => durableMarks(pool, stage, topic),
});

/**
 * Reports through the platform API if there is one, otherwise delivers alerts from this process.
 */
const openReporting = (
  { config, apiUrl, log }: RepairPorts,
  pool: Pool,
  mailer: Mailer | undefined,
  stack: LocalStack | undefined,
) => {
  const deliver = openDelivery(pool, mailer, log);
  let token: string | undefined;
  /**
   * Made before anything fails: a token that the API already knows stays valid while Postgres is
   * away.
   */
  const ensureToken = async (): Promise<string> => {
    token ??= await renewServiceToken(pool, `keeper ${config.INSTANCE_NAME}`);
    return token;
  };
  const report = async (alert: Alert): Promise<boolean> => {
    const url = apiUrl ?? stack?.apiUrl();
    if (url === undefined) return (await deliver(alert)).mailed;
    try {
      return await sendToApi({ url, token: await ensureToken() }, alert);
    } catch (error) {
      log.warn("alert.api_away", { incident_id: alert.incident_id, error });
      return (await deliver(alert)).mailed;
    }
  };
  return { report, ensureToken };
};

/** Measures how many seconds late sales reach Postgres, and sets the gauge. */
const openSyncLag = ({ kafka, metrics }: RepairPorts, pool: Pool) => {
  const admin = lastingAdmin(kafka, LAG_MS);
  const recorded = recordedHostings(pool);
  const hosts = ({ describeGroups }: Admin) => hostsNow({ topology: pipeline, recorded, describeGroups });
  return {
    readIntoClickhouse: () => admin.ask(async (one) => readIntoClickhouse(one, await hosts(one))),
    ask: async (): Promise<number> => {
      try {
        const seconds = await admin.ask(async (one) => syncLagOf(one, await hosts(one)));
        metrics.setSyncLag(seconds);
        metrics.setKnown("relational_sync_lag", true);
        return seconds;
      } catch (error) {
        metrics.setSyncLag(null);
        metrics.setKnown("relational_sync_lag", false);
        throw error;
      }
    },
    close: admin.close,
  };
};

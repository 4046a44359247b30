// Opens what self-repair needs: a connection of its own to each store, what restarts it, and what
// delivers alerts; one schedule a store.
import { Redis } from "ioredis";
import { openClickhouse } from "../../../infra/clickhouse/client.ts";
import { type Kafka, lastingAdmin } from "../../../infra/kafka/kafka.ts";
import { openObjects } from "../../../infra/objects/open.ts";
import { openPool } from "../../../infra/postgres/sql.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import type { Metrics } from "../../../infra/runtime/metrics.ts";
import type { Schedule } from "../../../infra/runtime/schedule.ts";
import { renewServiceToken } from "../../../modules/access/tokens.ts";
import type { Alert } from "../../../modules/alerts/alert.ts";
import { openDelivery } from "../../../modules/alerts/delivery.ts";
import { unmailedAlerts } from "../../../modules/alerts/kept-alerts.ts";
import { openMailer } from "../../../modules/alerts/mail.ts";
import { sendToApi } from "../../../modules/alerts/send-to-api.ts";
import { hostsNow, recordedHostings } from "../../../modules/groups/hosts.ts";
import { probeNames } from "../../../modules/repair/incident.ts";
import { releaseProbes, saveProbe, takeProbe } from "../../../modules/repair/probe-states.ts";
import { openProbes } from "../../../modules/repair/probes.ts";
import { restartOf } from "../../../modules/repair/restarts.ts";
import { type Repair, selfRepair } from "../../../modules/repair/self-repair.ts";
import { syncLagOf } from "../../../modules/repair/sync-lag.ts";
import { pipeline } from "../../../topology.ts";
import type { Config } from "../config.ts";
import { localStack } from "../local-stack.ts";

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
    | "RESTART_COMMAND"
    | "TRIBUTARY_HOME"
  >;
  /**
   * Base URL of the platform API; by default that of the embedded stack, if this process runs on
   * one.
   */
  readonly apiUrl?: string | undefined;
  readonly kafka: Pick<Kafka, "admin">;
  readonly log: Log;
  readonly metrics: Pick<Metrics, "setProbe" | "countRestart" | "setSyncLag">;
  /** Shorter in tests alone. */
  readonly timing?: Repair["timing"];
}

/** Shorter than a probe's 10 s, so that the store's own error is reported. */
const STORE_MS = 8_000;
const LAG_MS = 5_000;
const LEVELS = { healthy: 0, failing: 1, restarting: 2, down: 3 } as const;

/** Connects to nothing yet: a store that is away when the keeper starts is what this is for. */
export const openRepairs = ({ config, apiUrl, kafka, log, metrics, timing }: RepairPorts) => {
  const name = `tributary-${config.INSTANCE_NAME}-probe`;
  const pool = openPool(config.POSTGRES_URL, { name, max: 3, timeoutMs: STORE_MS });
  const clickhouse = openClickhouse(config.CLICKHOUSE_URL, { name, connections: 2, timeoutMs: STORE_MS - 3_000 });
  const redis = new Redis(config.REDIS_URL, {
    lazyConnect: true,
    commandTimeout: STORE_MS,
    connectTimeout: STORE_MS,
    maxRetriesPerRequest: null,
  });
  // The probe reports it once.
  redis.on("error", (error) => log.debug("redis.error", { error }));
  const objects = openObjects(config.OBJECT_STORE_URL);
  const mailer = openMailer(config.SMTP_URL);
  const deliver = openDelivery(pool, mailer, log);

  let token: string | undefined;
  const stack = config.TRIBUTARY_HOME === undefined ? undefined : localStack(config.TRIBUTARY_HOME);
  /**
   * Made before anything fails, while Postgres is there: a token that the API knows already is good
   * while Postgres is away.
   */
  const ensureToken = async (): Promise<string> => {
    token ??= await renewServiceToken(pool, `keeper ${config.INSTANCE_NAME}`);
    return token;
  };
  const report = async (alert: Alert): Promise<boolean> => {
    const url = apiUrl ?? stack?.apiUrl();
    if (url === undefined) return deliver(alert);
    try {
      return await sendToApi({ url, token: await ensureToken() }, alert);
    } catch (error) {
      log.warn("alert.api_away", { incident_id: alert.incident_id, error });
      return deliver(alert);
    }
  };

  const admin = lastingAdmin(kafka, LAG_MS);
  const recorded = recordedHostings(pool);
  const syncLag = async (): Promise<number> => {
    try {
      const seconds = await admin.ask(async (one) =>
        syncLagOf(one, await hostsNow({ topology: pipeline, recorded, describeGroups: one.describeGroups })),
      );
      metrics.setSyncLag(seconds);
      return seconds;
    } catch (error) {
      metrics.setSyncLag(null);
      throw error;
    }
  };
  const looks = openProbes({
    instance: config.INSTANCE_NAME,
    clickhouse,
    redis,
    objects,
    pool,
    syncLag,
    topicPrefix: config.KAFKA_TOPIC_PREFIX,
  });
  const book: Repair["book"] = {
    take: (probe, leaseMs) => takeProbe(pool, probe, config.INSTANCE_NAME, leaseMs),
    save: (row, alerts, leaseMs) => saveProbe(pool, row, alerts, config.INSTANCE_NAME, leaseMs),
    unmailed: (probe) => (mailer === undefined ? Promise.resolve([]) : unmailedAlerts(pool, probe)),
  };
  const schedules: readonly Schedule[] = probeNames.map((probe) =>
    selfRepair({
      name: probe,
      look: looks[probe],
      restart: () => {
        const restart = restartOf(probe, { command: config.RESTART_COMMAND, stack: stack?.restart, log });
        return (
          restart &&
          (() => {
            metrics.countRestart(probe);
            return restart();
          })
        );
      },
      book,
      report,
      log,
      show: ({ state }) => metrics.setProbe(probe, LEVELS[state]),
      ...(timing === undefined ? {} : { timing }),
    }),
  );
  return {
    schedules,
    start: () => void ensureToken().catch((error: unknown) => log.warn("token.not_made", { error })),
    close: async (): Promise<void> => {
      await releaseProbes(pool, config.INSTANCE_NAME).catch(() => undefined);
      redis.disconnect();
      mailer?.close();
      await Promise.all([admin.close(), clickhouse.close(), objects.close(), pool.end()]);
    },
  };
};

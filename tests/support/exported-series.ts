// The series of the stores' own exporters that rules read. No exporter runs in tests: names and
// labels are those of the images in docker-compose.yml, as their pages list them.
export interface ExportedSeries {
  readonly name: string;
  readonly healthy: (job: string) => string;
  readonly at: number;
  /** The value that is a fault, and the alert that it raises. */
  readonly fault?: {
    readonly at: number;
    readonly alert: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly summary: string;
  };
}

const of = (name: string, at: number, fault?: ExportedSeries["fault"], labels = ""): ExportedSeries => ({
  name,
  healthy: (job) => `${name}{instance="${job}:1",job="${job}"${labels}}`,
  at,
  ...(fault && { fault }),
});
const away = (job: string) => ({
  at: 0,
  alert: "StoreNotScraped",
  labels: { instance: `${job}:1`, job },
  summary: `${job}: its metrics cannot be read (${job}:1)`,
});
const unsent = {
  alert: "AlertsNotSent",
  labels: { job: "alertmanager" },
  summary: "alertmanager: alerts are not sent",
};
const nearly = (job: string, alert: string, at: number, summary: string) => ({
  ...{ at, alert, summary },
  labels: { instance: `${job}:1`, job },
});

export const EXPORTED: Readonly<Record<string, readonly ExportedSeries[]>> = {
  kafka: [
    of("up", 1, away("kafka")),
    of(
      "kafka_topic_partition_under_replicated_partition",
      0,
      {
        at: 1,
        alert: "KafkaUnderReplicated",
        labels: { job: "kafka" },
        summary: "kafka: 1 partitions have fewer copies than they should",
      },
      ',topic="events.raw",partition="0"',
    ),
  ],
  postgres: [
    of("up", 1, away("postgres")),
    of("pg_up", 1, away("postgres")),
    of(
      "pg_stat_activity_count",
      10,
      nearly("postgres", "PostgresConnectionsSpent", 95, "postgres: 95% of its connections are taken"),
      ',datname="tributary",state="idle"',
    ),
    of("pg_settings_max_connections", 100),
  ],
  clickhouse: [
    of("up", 1, away("clickhouse")),
    of(
      "ClickHouseAsyncMetrics_DiskAvailable_default",
      50,
      nearly("clickhouse", "ClickhouseDiskFilling", 10, "clickhouse: its disk has 10% left"),
    ),
    of("ClickHouseAsyncMetrics_DiskTotal_default", 100),
  ],
  redis: [
    of("up", 1, away("redis")),
    of("redis_up", 1, away("redis")),
    of("redis_memory_used_bytes", 10, nearly("redis", "RedisNearlyFull", 80, "redis: 80% of its memory is used")),
    of("redis_memory_max_bytes", 100),
  ],
  alertmanager: [
    of("up", 1, { at: 0, ...unsent }),
    of("alertmanager_notifications_failed_total", 0, { at: 2, ...unsent }, ',integration="email",reason="other"'),
  ],
};

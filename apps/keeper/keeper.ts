// Opens the stores and the log by name, starts the schedules, and closes in reverse.

import { openRegistry } from "../../infra/avro/registry.ts";
import { openWire } from "../../infra/avro/wire.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { openOps } from "../../infra/http/side-port.ts";
import { openKafka } from "../../infra/kafka/kafka.ts";
import { openObjects } from "../../infra/objects/open.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import type { Log } from "../../infra/runtime/log.ts";
import { openMetrics } from "../../infra/runtime/metrics.ts";
import { keepDoing, type Schedule } from "../../infra/runtime/schedule.ts";
import type { Scope } from "../../infra/runtime/scope.ts";
import { tlsOf } from "../../infra/runtime/tls-files.ts";
import { commitOf, versionOf } from "../../infra/runtime/version.ts";
import { sendWithSchemaIds } from "../../infra/spool/send-with-schema-ids.ts";
import { letterSources } from "../../modules/dead-letters/failure.ts";
import { outboxTopics } from "../../modules/outbox/outbox.ts";
import { openSuppressions } from "../../modules/privacy/suppressions.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import type { Config } from "./config.ts";
import { archiveRetention } from "./schedules/archive.ts";
import { deadLetterIndex, deadLetterRetries } from "./schedules/dead-letters.ts";
import { lastResort } from "./schedules/last-resort.ts";
import { nightly } from "./schedules/nightly.ts";
import { forgetting, outbox } from "./schedules/outbox.ts";
import { openRepairs } from "./schedules/repairs.ts";
import { openReplayLane } from "./schedules/replays.ts";
import { rollups } from "./schedules/rollups.ts";

const STORE_MS = 5_000;
// Reading an hour of 60 million events takes about 20 s of CPU (bench/rollups.ts); a busy machine
// may need three times as long.
const ROLLUP_MS = 60_000;
/**
 * What has done nothing for so long does not work, whatever the cause; each fault has to be over
 * within 60 s (docs/design/laws.md L1).
 */
const SILENT_MS = 120_000;

/**
 * What `run` of infra/runtime/scope.ts runs; returns once every schedule has begun. `apiUrl`: the
 * platform API, which mails alerts.
 */
export const keeper =
  (config: Config, log: Log, apiUrl?: string) =>
  async (scope: Scope): Promise<void> => {
    const name = `tributary-${config.INSTANCE_NAME}`;
    const version = versionOf();
    const metrics = openMetrics({ app: "keeper", version, commit: commitOf() });
    const checks: Record<string, () => void> = { started: () => need(false, "the schedules have not begun yet") };
    const ops = await scope.open("ops", async () =>
      closing(await openOps({ port: config.OPS_PORT, host: config.HOST, metrics, checks, ...tlsOf(config, log) })),
    );
    const kafka = openKafka({
      brokers: config.KAFKA_BROKERS,
      clientId: name,
      topicPrefix: config.KAFKA_TOPIC_PREFIX,
      log,
    });
    const begin = async (schedule: Schedule): Promise<void> => {
      const running = await scope.open(schedule.name, () => keepDoing(schedule, { log, metrics }));
      const allowedMs = schedule.pauseMs + SILENT_MS;
      checks[schedule.name] = () =>
        need(running.silentMs() < allowedMs, `has not got through for ${allowedMs / 1_000} s; its log says why`);
    };
    // First of all, and with connections of its own: that a store is away must not keep it from
    // being watched.
    const repairs = await scope.open("repairs", () => closing(openRepairs({ config, apiUrl, kafka, log, metrics })));
    repairs.start();
    for (const schedule of repairs.schedules) await begin(schedule);
    const producer = await scope.open("producer", () => closing(kafka.producer({ sendDeadlineMs: STORE_MS })));
    const registry = openRegistry({ url: config.SCHEMA_REGISTRY_URL, topicPrefix: config.KAFKA_TOPIC_PREFIX });
    const wire = await openWire(
      [...new Set([...Object.values(outboxTopics), topics.claims, ...letterSources])],
      registry,
    );
    const pool = await scope.open("postgres", () => {
      const value = openPool(config.POSTGRES_URL, { name, max: 8, timeoutMs: STORE_MS });
      return { value, stop: () => value.end() };
    });
    const clickhouse = await scope.open("clickhouse", () =>
      closing(openClickhouse(config.CLICKHOUSE_URL, { name, timeoutMs: ROLLUP_MS })),
    );

    const objects = await scope.open("objects", () => closing(openObjects(config.OBJECT_STORE_URL)));
    const abandoned = lastResort(objects, sendWithSchemaIds(registry, producer.send));
    const retention = archiveRetention(objects, Date.now);
    const night = nightly({ pool, clickhouse, wire, produce: producer.send, log, clock: Date.now });
    for (const schedule of [
      outbox(pool, wire, producer.send),
      forgetting(pool),
      rollups(pool, clickhouse),
      night,
      retention,
      abandoned,
    ])
      await begin(schedule);
    const suppressions = await scope.open("suppressions", () => closing(openSuppressions(pool)));
    const ofReplays = {
      config,
      topology: pipeline,
      kafka,
      registry,
      produce: producer.send,
      suppressions,
      metrics,
      log,
    };
    await begin(await scope.open("replay lane", () => openReplayLane(ofReplays)));
    const ofLetters = {
      topology: pipeline,
      pool,
      kafka,
      wire,
      produce: producer.send,
      hides: suppressions.hides,
      metrics,
    };
    for (const open of [deadLetterIndex, deadLetterRetries])
      await begin(await scope.open("dead letters", () => open(ofLetters)));
    await scope.open("readiness", () => ({ value: ops, stop: ops.drain }));
    delete checks.started;
    log.info("app.started", { version, ops_port: ops.port });
  };

const closing = <T extends { readonly close: () => Promise<void> | void }>(value: T) => ({
  value,
  stop: () => value.close(),
});

const need = (isSo: boolean, otherwise: string): void => {
  if (!isSo) throw new Error(otherwise);
};

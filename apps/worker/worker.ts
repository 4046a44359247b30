// Hosts groups of stages and sinks: opens what they need by name, joins one consumer a group, and
// closes in reverse.

import { Redis } from "ioredis";
import type { Pool } from "pg";
import { openRegistry, type Registry } from "../../infra/avro/registry.ts";
import { openWire } from "../../infra/avro/wire.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { type Check, need, openOps } from "../../infra/http/side-port.ts";
import {
  type Consumer,
  type ConsumerSettings,
  copyReading,
  openKafka,
  sinkReading,
  stageReading,
} from "../../infra/kafka/kafka.ts";
import type { Objects } from "../../infra/objects/objects.ts";
import { openObjects } from "../../infra/objects/open.ts";
import { postgresMemory } from "../../infra/postgres/durable-memory.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { redisMemory } from "../../infra/redis/fast-memory.ts";
import { classify } from "../../infra/runtime/errors.ts";
import type { Log } from "../../infra/runtime/log.ts";
import { type Metrics, openMetrics } from "../../infra/runtime/metrics.ts";
import { retry } from "../../infra/runtime/retry.ts";
import { closing, type Scope } from "../../infra/runtime/scope.ts";
import { tlsOf } from "../../infra/runtime/tls-files.ts";
import { commitOf, versionOf } from "../../infra/runtime/version.ts";
import { hintPrefixOf, viewsOf } from "../../modules/facts/views.ts";
import { heldAmong, recordHosting } from "../../modules/groups/group-holds.ts";
import type { Group } from "../../modules/groups/hosting.ts";
import { openMemberships } from "../../modules/groups/membership.ts";
import { revised } from "../../modules/groups/revised.ts";
import { recordRevisions } from "../../modules/groups/stage-revisions.ts";
import { openSuppressions, withholdsOf } from "../../modules/privacy/suppressions.ts";
import { openReference, readOf } from "../../modules/reference/reference.ts";
import { pastOf } from "../../sinks/archive/read.ts";
import { withheldBy } from "../../sinks/archive/withheld.ts";
import { archivedSchema, archiver } from "../../sinks/archive/write.ts";
import { clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import { postgresStore } from "../../sinks/stores/postgres.ts";
import { redisStore } from "../../sinks/stores/redis.ts";
import { copyRunner } from "../../stream/copy-runner.ts";
import { deadLetterOf } from "../../stream/dead-letters.ts";
import type { AnyTopic, Topology } from "../../stream/flow.ts";
import type { Letter, LogPorts, Retry, RunnerPorts, SinkPorts } from "../../stream/messages.ts";
import { runner } from "../../stream/runner.ts";
import { sinkRunner } from "../../stream/sink-runner.ts";
import type { Config } from "./config.ts";
import { reportLag } from "./lag.ts";

// A step is tried for 60 s, within which every fault must be over (docs/design/laws.md L1); then a
// new process with new connections is the better try.
const STEP_DEADLINE_MS = 60_000;
// Half of a stage's session of 10 s: a store or a log that hangs is given up in time for a
// heartbeat.
const STORE_MS = 5_000;
/**
 * Fast memory remembers nothing for longer (infra/redis/fast-memory.ts), so older hours of the
 * archive have nothing to teach.
 */
const RELEARNT_MS = 90 * 86_400_000;
/** Long enough for an operator to come, short enough not to pile up. */
const STOPS_KEPT_SECONDS = 86_400;

/** What `run` of infra/runtime/scope.ts runs; returns once every group has been joined. */
export const worker =
  (topology: Topology, groups: readonly Group[], config: Config, log: Log) =>
  async (scope: Scope): Promise<void> => {
    const name = `tributary-${config.INSTANCE_NAME}`;
    const version = versionOf();
    const metrics = openMetrics({ app: "worker", version, commit: commitOf() });
    const checks: Record<string, Check> = { started: () => need(false, "the groups are not joined yet") };
    const ops = await scope.open("ops", async () =>
      closing(await openOps({ port: config.OPS_PORT, host: config.HOST, metrics, checks, ...tlsOf(config, log) })),
    );

    const kafka = openKafka({
      brokers: config.KAFKA_BROKERS,
      clientId: name,
      topicPrefix: config.KAFKA_TOPIC_PREFIX,
      log,
    });
    const producer = await scope.open("producer", () => closing(kafka.producer({ sendDeadlineMs: STORE_MS })));
    const registry = openRegistry({ url: config.SCHEMA_REGISTRY_URL, topicPrefix: config.KAFKA_TOPIC_PREFIX });
    const objects = await scope.open("objects", () => closing(openObjects(config.OBJECT_STORE_URL)));
    // What the registry forgot is read from the archive, which keeps a schema for as long as
    // anything that was written under it.
    const schemaOf = async (id: number) => (await registry.schemaOf(id)) ?? archivedSchema(objects, id);
    const wire = await openWire(topicsOf(groups), { idOf: registry.idOf, schemaOf });
    const ports = {
      wire,
      produce: producer.send,
      deadLetters: topology.deadLetters,
      deadLetter: (letter: Letter) => deadLetterOf(letter, Date.now()),
      retry: retrying(metrics, log, scope.closing),
    };
    const { pool, processOf } = await openRunners(scope, ports, {
      groups,
      config,
      log,
      metrics,
      name,
      objects,
      registry,
    });

    const join = async (group: Group): Promise<Consumer> => {
      const { process, onJoin } = processOf(group);
      // Only for who looks: a command that finds nothing asks the broker.
      await recordHosting(pool, {
        group: group.name,
        topic: group.reads.name,
        nodes: nodesOf(group),
        instance: config.INSTANCE_NAME,
      }).catch((error) => log.warn("hosting.not_told", { group: group.name, error }));
      return kafka.consumer({
        group: group.name,
        topics: [group.reads.name],
        reading: readingOf(group),
        onBatch: process,
        onJoin,
        // A step that was given up because the worker closes has not failed: its offset stands.
        onCrash: (error) =>
          scope.closing.aborted ? log.debug("group.left", { group: group.name, error }) : scope.fail(error),
      });
    };
    const memberships = groups.map((group) => ({
      group: group.name,
      join: () => join(group),
      sessionTimeoutMs: readingOf(group).sessionTimeoutMs,
      log,
      fail: scope.fail,
    }));
    const held = () =>
      heldAmong(
        pool,
        groups.map(({ name: group }) => group),
      );
    const members = await scope.open("groups", () => openMemberships(memberships, held, log, scope.closing));
    for (const { group, check } of members) checks[group] = check;
    await scope.open("lag", () => reportLag({ kafka, groups, metrics, log }));
    // Closed first: readiness is red before the groups are left.
    await scope.open("readiness", () => ({ value: ops, stop: ops.drain }));
    delete checks.started;
    log.info("app.started", { version, groups: groups.map((group) => group.name), ops_port: ops.port });
  };

interface Hosting {
  readonly groups: readonly Group[];
  readonly config: Config;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly name: string;
  readonly objects: Objects;
  readonly registry: Registry;
}

interface Runners {
  readonly pool: Pool;
  /**
   * To be asked anew whenever a group is joined: a runner remembers what it has under way, and
   * inserts by tokens that must not outlive a rewind.
   */
  readonly processOf: (group: Group) => { readonly process: ConsumerSettings["onBatch"]; readonly onJoin: () => void };
}

/**
 * Opens the stores (connections are made when they are needed) and answers with what processes the
 * batches of a group.
 */
const openRunners = async (
  scope: Scope,
  ports: Omit<LogPorts, "stops" | "log">,
  hosting: Hosting,
): Promise<Runners> => {
  const { groups, config, log, metrics, name, objects, registry } = hosting;
  const pool = await scope.open("postgres", () => {
    const value = openPool(config.POSTGRES_URL, { name, max: groups.length + 3, timeoutMs: STORE_MS });
    return { value, stop: () => value.end() };
  });
  const redis = await scope.open("redis", () => {
    const value = new Redis(config.REDIS_URL, { lazyConnect: true, maxRetriesPerRequest: 1, commandTimeout: STORE_MS });
    // The command that meets a broken connection fails and is tried again; without a listener the
    // error would be printed as well.
    value.on("error", () => undefined);
    return { value, stop: () => value.disconnect() };
  });
  const clickhouse = await scope.open("clickhouse", () => closing(openClickhouse(config.CLICKHOUSE_URL, { name })));
  const needsFacts = groups.some(
    (group) => group.is === "chain" && group.chain.hosted.some(({ stage }) => stage.facts !== undefined),
  );
  const reference = needsFacts
    ? await scope.open("reference", () =>
        closing(openReference(pool, { onError: (error) => log.warn("reference.not_refreshed", { error }) })),
      )
    : undefined;
  // Whoever writes rows, or learns the past again, must know who was erased.
  const suppressions = groups.some((group) => group.is !== "copy")
    ? await scope.open("suppressions", () =>
        closing(openSuppressions(pool, { onError: (error) => log.warn("suppressions.not_refreshed", { error }) })),
      )
    : undefined;
  const views = viewsOf(config, redis, log);
  const ofAll: LogPorts = {
    ...ports,
    log,
    stops: async (reader, { topic, partition, offset }) => {
      const key = `${config.KAFKA_TOPIC_PREFIX}stops:${reader}:${topic}/${partition}@${offset}`;
      const stops = await redis.incr(key);
      await redis.expire(key, STOPS_KEPT_SECONDS);
      return stops;
    },
  };

  const ofStages: RunnerPorts = {
    ...ofAll,
    memories: { fast: redisMemory(redis, `${config.KAFKA_TOPIC_PREFIX}memory`), durable: postgresMemory(pool) },
    read: readOf(reference === undefined ? views : { ...views, reference: reference.source }),
    count: metrics.countBatch,
  };
  const since = () => Date.now() - RELEARNT_MS;
  const withholds = async () => suppressions && withholdsOf(suppressions);

  let joins = 0;
  const ofSinks = (): SinkPorts => ({
    ...ofAll,
    stores: {
      clickhouse: clickhouseStore(clickhouse),
      postgres: postgresStore(pool),
      redis: redisStore(redis, hintPrefixOf(config)),
    },
    run: `${config.INSTANCE_NAME}-${process.pid}-${Date.now()}-${++joins}`,
    classify,
    ...(suppressions !== undefined && { withholds: () => withholdsOf(suppressions) }),
    countWrite: (counts) => metrics.countWrite(counts, Date.now()),
  });
  return {
    pool,
    processOf: (group) => {
      if (group.is === "sinks") return { process: sinkRunner(group.sinks, ofSinks()), onJoin: () => undefined };
      if (group.is === "copy") {
        const keep = archiver(objects, registry.schemaOf);
        return { process: copyRunner(group.copy, { ...ofSinks(), keep }), onJoin: () => undefined };
      }
      const stages = group.chain.hosted.map(({ stage }) => ({ name: stage.name, revision: stage.revision ?? 1 }));
      const instance = config.INSTANCE_NAME;
      return revised(
        runner(group.chain, {
          ...ofStages,
          past: pastOf(objects, { since, withheld: withheldBy(objects, ports.wire, group.reads, withholds) }),
        }),
        (topic, partition, offset) =>
          recordRevisions(pool, stages, { group: group.name, topic, partition, offset, instance }),
        ports.retry,
      );
    },
  };
};

const nodesOf = (group: Group): readonly string[] => {
  if (group.is === "chain") return group.chain.hosted.map(({ stage }) => stage.name);
  return group.is === "sinks" ? group.sinks.map(({ name }) => name) : [group.copy.name];
};

const readings = { chain: stageReading, sinks: sinkReading, copy: copyReading };
const readingOf = (group: Group) => readings[group.is];

const topicsOf = (groups: readonly Group[]): readonly AnyTopic[] => [
  ...new Set(
    groups.flatMap((group) =>
      group.is !== "chain"
        ? [group.reads]
        : group.chain.hosted.flatMap(({ stage }) => [stage.from, ...Object.values(stage.to)]),
    ),
  ),
];

const retrying =
  (metrics: Metrics, log: Log, signal: AbortSignal): Retry =>
  (name, step, between) =>
    retry(step, {
      deadlineMs: STEP_DEADLINE_MS,
      signal,
      beforeWait: async (error, tries) => {
        metrics.countRetry(name);
        log.warn("step.retried", { step: name, tries, error });
        await between();
      },
    });

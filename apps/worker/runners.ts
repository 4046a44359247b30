// Opens the runners that process the batches of groups, and the stores that their stages need.
import type { Redis } from "ioredis";
import type { Pool } from "pg";
import { openRegistry, type Registry } from "../../infra/avro/registry.ts";
import { openWire } from "../../infra/avro/wire.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { type ConsumerSettings, type Kafka, wholeReader } from "../../infra/kafka/kafka.ts";
import type { Objects } from "../../infra/objects/objects.ts";
import { openObjects } from "../../infra/objects/open.ts";
import { postgresMemory } from "../../infra/postgres/durable-memory.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { openRedis } from "../../infra/redis/client.ts";
import { redisMemory } from "../../infra/redis/fast-memory.ts";
import { openHintRoom } from "../../infra/redis/room.ts";
import { classify, isTimeLimit } from "../../infra/runtime/errors.ts";
import type { Log } from "../../infra/runtime/log.ts";
import type { Metrics } from "../../infra/runtime/metrics.ts";
import { closing, type Scope } from "../../infra/runtime/scope.ts";
import { retry } from "../../infra/runtime/timing/retry.ts";
import { openInstallationSecrets } from "../../modules/access/secrets/installation-secrets.ts";
import { hintKeysOf, hintPrefixOf, viewsOf } from "../../modules/catalog/facts/views.ts";
import { openReference, readOf } from "../../modules/catalog/reference/reference.ts";
import type { Group } from "../../modules/log/groups/hosting.ts";
import { revised } from "../../modules/log/groups/revision-reader.ts";
import { recordRevisions } from "../../modules/log/groups/stage-revisions.ts";
import { openSuppressions, withholdsOf } from "../../modules/privacy/suppressions.ts";
import { pastOf } from "../../sinks/archive/archive-reads.ts";
import { withheldBy } from "../../sinks/archive/withheld-filter.ts";
import { archivedSchema, archiver } from "../../sinks/archive/write.ts";
import { clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import { postgresStore } from "../../sinks/stores/postgres.ts";
import { redisStore } from "../../sinks/stores/redis.ts";
import { deadLetterOf } from "../../stream/dead-letters.ts";
import type { AnyTopic, Topology } from "../../stream/flow.ts";
import type { Letter } from "../../stream/messages.ts";
import { openPieces, SlowBatch } from "../../stream/pace/pieces.ts";
import type { LogPorts, Retry, RunnerPorts, SinkPorts } from "../../stream/ports.ts";
import { runner } from "../../stream/runner.ts";
import { copyRunner } from "../../stream/sink/copy-runner.ts";
import { sinkRunner } from "../../stream/sink/sink-runner.ts";
import { topicsWrittenBy } from "../../stream/topology.ts";
import type { Config } from "./config.ts";

// A step is tried for 60 s, within which every fault must be over (docs/design/laws.md L1). After
// that a new process with new connections is the better try.
const STEP_DEADLINE_MS = 60_000;
// Half of a stage's session of 10 s, so that a heartbeat still fits after a store or a log that
// hangs.
const STORE_MS = 5_000;
/**
 * Fast memory keeps no versions older than this (infra/redis/fast-memory.ts), so a relearn need not
 * read older hours of the archive.
 */
const RELEARNT_MS = 90 * 86_400_000;
/** Long enough for an operator to look, short enough that counts do not pile up. */
const STOPS_KEPT_SECONDS = 86_400;

/** The groups that a worker hosts, and its resources for them. */
export interface Host {
  readonly topology: Topology;
  readonly groups: readonly Group[];
  readonly config: Config;
  readonly log: Log;
  readonly scope: Scope;
  readonly metrics: Metrics;
  readonly kafka: Kafka;
}

export interface Runners {
  readonly pool: Pool;
  /**
   * Called at each join of a group: a runner holds work under way and tokens of inserts, and
   * neither may outlive a rewind.
   */
  readonly processOf: (group: Group) => { readonly process: ConsumerSettings["onBatch"]; readonly onJoin: () => void };
}

/** Waits for the schema registry only; the stores are connected when they are first used. */
export const openRunners = async (host: Host): Promise<Runners> => {
  const { config, scope, groups, kafka } = host;
  const producer = await scope.open("producer", () => closing(kafka.producer({ sendDeadlineMs: STORE_MS })));
  const registry = openRegistry({ url: config.SCHEMA_REGISTRY_URL, topicPrefix: config.KAFKA_TOPIC_PREFIX });
  const objects = await scope.open("objects", () => closing(openObjects(config.OBJECT_STORE_URL)));
  // A schema that the registry has lost is read from the archive, which keeps every schema as long
  // as anything that was written under it.
  const schemaOf = async (id: number) => (await registry.schemaOf(id)) ?? archivedSchema(objects, id);
  const wire = await openWire(topicsOf(groups), { idOf: registry.idOf, schemaOf });
  const stores = await openStores(host);
  const known = await openKnown(host, stores.pool);
  const log = logPorts(host, { wire, produce: producer.send }, stores.redis);
  const parts: Parts = { ...stores, ...known, objects, registry, log };
  const ofStages = stagePorts(host, parts);
  let joins = 0;
  return {
    pool: stores.pool,
    processOf: (group) => {
      if (group.is === "chain") return processOfChain(group, host, parts, ofStages);
      const ports = sinkPorts(host, parts, ++joins);
      if (group.is === "sinks") return { process: sinkRunner(group.sinks, ports), onJoin: () => undefined };
      const { keep, forget } = archiver(objects, registry.schemaOf);
      return { process: copyRunner(group.copy, { ...ports, keep }), onJoin: forget };
    },
  };
};

type Stores = Awaited<ReturnType<typeof openStores>>;
type WorkerParts = Awaited<ReturnType<typeof openKnown>>;
interface Parts extends Stores, WorkerParts {
  readonly objects: Objects;
  readonly registry: Registry;
  readonly log: LogPorts;
}

const openStores = async ({ config, scope, groups, log, metrics }: Host) => {
  const name = `tributary-${config.INSTANCE_NAME}`;
  const pool = await scope.open("postgres", () => {
    const value = openPool(config.POSTGRES_URL, { name, max: groups.length + 3, timeoutMs: STORE_MS });
    return { value, stop: () => value.end() };
  });
  const redis = await scope.open("redis", () => {
    const value = openRedis(config.REDIS_URL, STORE_MS);
    return { value, stop: () => value.disconnect() };
  });
  const room = await scope.open("hints", () =>
    openHintRoom({ redis, prefixes: hintKeysOf(config), count: metrics.countShed, log }),
  );
  const clickhouse = await scope.open("clickhouse", () => closing(openClickhouse(config.CLICKHOUSE_URL, { name })));
  const secrets = openInstallationSecrets(pool, {
    instance: config.INSTANCE_NAME,
    keyring: config.TRIBUTARY_SECRET,
    log,
    fail: scope.fail,
    signal: scope.closing,
  });
  return { pool, redis, room, clickhouse, secrets };
};

/** Opens reference data if a stage asks for facts, and erased subjects if rows are written. */
const openKnown = async ({ scope, groups, log }: Host, pool: Pool) => {
  const needsFacts = groups.some(
    (group) => group.is === "chain" && group.chain.hosted.some(({ stage }) => stage.facts !== undefined),
  );
  const reference = needsFacts
    ? await scope.open("reference", () =>
        closing(openReference(pool, { onError: (error) => log.warn("reference.not_refreshed", { error }) })),
      )
    : undefined;
  const suppressions = groups.some((group) => group.is !== "copy")
    ? await scope.open("suppressions", () =>
        closing(openSuppressions(pool, { onError: (error) => log.warn("suppressions.not_refreshed", { error }) })),
      )
    : undefined;
  return { reference, suppressions };
};

const logPorts = (
  { topology, config, log, metrics, scope }: Host,
  ports: Pick<LogPorts, "wire" | "produce">,
  redis: Redis,
): LogPorts => ({
  ...ports,
  log,
  deadLetters: topology.deadLetters,
  deadLetter: (letter: Letter) => deadLetterOf(letter, Date.now()),
  retry: retrying(metrics, log, scope.closing),
  stops: async (reader, { topic, partition, offset }) => {
    const key = `${config.KAFKA_TOPIC_PREFIX}stops:${reader}:${topic}/${partition}@${offset}`;
    const stops = await redis.incr(key);
    await redis.expire(key, STOPS_KEPT_SECONDS);
    return stops;
  },
});

/**
 * Called once a worker, so that the snapshots in which stages look things up are in memory once.
 */
const stagePorts = ({ config, log, metrics, kafka }: Host, parts: Parts): RunnerPorts => {
  const { pool, redis, reference } = parts;
  const views = viewsOf(config, parts, parts.secrets.confirmed, log);
  return {
    ...parts.log,
    memories: { fast: redisMemory(redis, `${config.KAFKA_TOPIC_PREFIX}memory`), durable: postgresMemory(pool) },
    whole: wholeReader(kafka),
    read: readOf(reference === undefined ? views : { ...views, reference: reference.source }),
    count: metrics.countBatch,
  };
};

const sinkPorts = (
  { config, metrics }: Host,
  { log, pool, redis, room, clickhouse, suppressions }: Parts,
  join: number,
): SinkPorts => ({
  ...log,
  stores: {
    clickhouse: clickhouseStore(clickhouse),
    postgres: postgresStore(pool),
    redis: redisStore(redis, hintPrefixOf(config), room),
  },
  run: `${config.INSTANCE_NAME}-${process.pid}-${Date.now()}-${join}`,
  classify,
  ...(suppressions !== undefined && { withholds: () => withholdsOf(suppressions) }),
  countWrite: (counts) => metrics.countWrite(counts, Date.now()),
});

const processOfChain = (
  group: Extract<Group, { is: "chain" }>,
  host: Host,
  parts: Parts,
  ofStages: Omit<RunnerPorts, "past" | "committed">,
) => {
  const { objects, log, pool, suppressions } = parts;
  const stages = group.chain.hosted.map(({ stage }) => ({ name: stage.name, revision: stage.revision ?? 1 }));
  const instance = host.config.INSTANCE_NAME;
  const withholds = async () => suppressions && withholdsOf(suppressions);
  const past = pastOf(objects, {
    since: () => Date.now() - RELEARNT_MS,
    withheld: withheldBy(objects, log.wire, group.reads, withholds),
  });
  const committed = async (topic: string): Promise<ReadonlyMap<number, number>> => {
    const admin = await host.kafka.admin();
    return admin.committed(group.name, topic).finally(() => admin.close());
  };
  // A membership that a slow batch has cost must not begin with the same size again.
  const pieces = openPieces(group.chain.name, log);
  const started = () => runner(group.chain, { ...ofStages, past, committed }, pieces);
  let process = started();
  const reader = revised(
    (batch, control) => process(batch, control),
    (topic, partition, offset) =>
      recordRevisions(pool, stages, { group: group.name, topic, partition, offset, instance }),
    log.retry,
  );
  // Between two memberships memory may have been restored from a backup.
  const onJoin = (): void => {
    process = started();
    reader.onJoin();
  };
  return { ...reader, onJoin };
};

const topicsOf = (groups: readonly Group[]): readonly AnyTopic[] => [
  ...new Set(
    groups.flatMap((group) =>
      group.is !== "chain"
        ? [group.reads]
        : group.chain.hosted.flatMap(({ stage }) => [stage.from, ...topicsWrittenBy(stage)]),
    ),
  ),
];

/** The port of the runners; `signal` ends the retrying. */
export const retrying =
  (metrics: Pick<Metrics, "countRetry">, log: Pick<Log, "warn">, signal: AbortSignal): Retry =>
  (name, step, between, isCuttable = false) => {
    const isSlow = (error: unknown): boolean => isCuttable && !signal.aborted && isTimeLimit(error);
    return retry(step, {
      deadlineMs: STEP_DEADLINE_MS,
      signal,
      isTransient: (error) => classify(error) === "transient" && !isSlow(error),
      beforeWait: async (error, tries) => {
        metrics.countRetry(name);
        log.warn("step.retried", { step: name, tries, error });
        await between();
      },
    }).catch((error) => {
      if (!isSlow(error)) throw error;
      metrics.countRetry(name);
      throw new SlowBatch(name, error);
    });
  };

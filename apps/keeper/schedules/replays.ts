// The schedule of the replay lane: claims the oldest open replay and works on it, a minute at a
// time.
import { randomUUID } from "node:crypto";
import type { Pool } from "pg";
import type { openRegistry } from "../../../infra/avro/registry.ts";
import { openWire } from "../../../infra/avro/wire.ts";
import { openClickhouse } from "../../../infra/clickhouse/client.ts";
import type { Admin, Kafka } from "../../../infra/kafka/kafka.ts";
import { openPool } from "../../../infra/postgres/sql.ts";
import { openRedis } from "../../../infra/redis/client.ts";
import { classify } from "../../../infra/runtime/errors.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import type { Metrics } from "../../../infra/runtime/metrics.ts";
import type { Resource } from "../../../infra/runtime/scope.ts";
import { retry } from "../../../infra/runtime/timing/retry.ts";
import type { Schedule } from "../../../infra/runtime/timing/schedule.ts";
import {
  beginOperation,
  type OperationPorts,
  type RunningOperation,
} from "../../../modules/base/operations/operations.ts";
import { hintPrefixOf } from "../../../modules/catalog/facts/views.ts";
import { knownRefusals } from "../../../modules/log/dead-letters/known-refusals.ts";
import { liveTrafficOf } from "../../../modules/log/replays/live-traffic.ts";
import { type LanePorts, workOff } from "../../../modules/log/replays/replay-lane.ts";
import {
  claimReplay,
  LaneLost,
  leaseMs,
  type OwnedReplay,
  ownedReplay,
  type Replay,
  readReplay,
} from "../../../modules/log/replays/replays.ts";
import { replayableSinks, reportOf } from "../../../modules/log/replays/report.ts";
import { type Suppressions, withholdsOf } from "../../../modules/privacy/suppressions.ts";
import { clickhouseStore } from "../../../sinks/stores/clickhouse.ts";
import { postgresStore } from "../../../sinks/stores/postgres.ts";
import { redisStore } from "../../../sinks/stores/redis.ts";
import type { Topology } from "../../../stream/flow.ts";
import type { Produce } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";
import { topics } from "../../../topics.ts";
import type { Config } from "../config.ts";
import { keepLease } from "../lease.ts";

/**
 * The length of a turn; the next turn continues. A schedule that does not return counts as dead,
 * and joining the log again costs a second of each turn.
 */
const TURN_MS = 60_000;

interface ReplaySchedulePorts {
  readonly pool: Pool;
  /**
   * Opened when a replay begins, so that the log and the registry may be away while there is none.
   */
  readonly lane: () => Promise<LanePorts & OperationPorts>;
  readonly log: Pick<Log, "info">;
}

/** The audit of the replay under way: a replay takes several turns and is begun once. */
const openReplayAudit = () => {
  /** The replay that this process has begun and not ended. */
  let current: { readonly replay_id: string; readonly operation: RunningOperation } | undefined;
  const forget = (): void => {
    current = undefined;
  };
  return {
    begin: async (ports: OperationPorts, replay: Replay): Promise<RunningOperation> => {
      if (current?.replay_id === replay.replay_id) return current.operation;
      const { replay_id, actor, from_at, to_at, sinks, positions } = replay;
      const window = `${new Date(from_at).toISOString()}/${to_at === null ? "" : new Date(to_at).toISOString()}`;
      const operation = await beginOperation(
        ports,
        { kind: "replay", actor, target: replay_id },
        { window, sinks, positions },
      );
      current = { replay_id, operation };
      return operation;
    },
    /** Writes nothing when the replay was begun by another process. */
    fail: async (replay_id: string, message: string): Promise<void> => {
      await current?.operation.end("failed", { replay_id, message });
      forget();
    },
    forget,
  };
};

/** Ends the operation of a replay that is done, with its report. */
const reportDone = async (
  { pool, log }: ReplaySchedulePorts,
  replay: Replay,
  operation: RunningOperation,
): Promise<void> => {
  const { ok: _, state: __, ...report } = reportOf((await readReplay(pool, replay.replay_id)) ?? replay);
  await operation.end("succeeded", report);
  log.info("replay.done", {
    replay_id: report.replay_id,
    requeued: report.events_requeued,
    suppressed: report.events_suppressed,
  });
};

/**
 * Works on one replay at a time, however many processes run. The audit has a record before a replay
 * begins and one when it ends.
 */
const replays = (opened: ReplaySchedulePorts): Schedule => {
  const { pool, lane } = opened;
  // Every process has its own: the replay of a killed one is taken over when its lease ends.
  const owner = randomUUID();
  const audit = openReplayAudit();
  /** A transient failure leaves the replay to the next turn; any other ends it. */
  const giveUp = async ({ replay_id }: Replay, owned: OwnedReplay, error: unknown): Promise<void> => {
    if (classify(error) === "transient") return await owned.release().catch(() => undefined);
    const { message } = error as Error;
    await owned.end("failed", { file: "", message }).catch(() => undefined);
    await audit.fail(replay_id, message).catch(audit.forget);
  };

  return {
    name: "replays",
    pauseMs: 500,
    work: async (isClosing) => {
      const replay = await claimReplay(pool, owner);
      if (replay === undefined) return 0;
      if (replay === "busy") return "busy";
      const owned = ownedReplay(pool, replay.replay_id, owner);
      const lease = keepLease(owned.renew, leaseMs, LaneLost);
      const turnEnds = performance.now() + TURN_MS;
      try {
        const ports = await lane();
        const operation = await audit.begin(ports, replay);
        const isOver = () => lease.isLost() || isClosing() || performance.now() > turnEnds;
        if ((await workOff(replay, owner, ports, isOver)) === "interrupted") {
          if (!lease.isLost()) await owned.release();
          return 0;
        }
        audit.forget();
        await reportDone(opened, replay, operation);
        return 1;
      } catch (error) {
        if (error instanceof LaneLost) {
          await audit.fail(replay.replay_id, "cancelled, or taken over");
          return 0;
        }
        await giveUp(replay, owned, error);
        throw error;
      } finally {
        lease.stop();
      }
    },
  };
};

// The limits of a worker: a step is tried for 60 s, within which every fault must be over
// (docs/design/laws.md L1), and a store that hangs is given up after 5 s.
const STEP_DEADLINE_MS = 60_000;
const STORE_MS = 5_000;

export interface ReplayLaneSettings {
  readonly config: Config;
  readonly topology: Topology;
  readonly kafka: Kafka;
  readonly registry: ReturnType<typeof openRegistry>;
  readonly produce: Produce;
  readonly suppressions: Suppressions;
  readonly metrics: Pick<Metrics, "countRetry" | "countShed">;
  readonly log: Log;
}

/** The stores that replays write, over connections that nothing else of the keeper uses. */
const openLaneStores = ({ config, metrics }: ReplayLaneSettings) => {
  const name = `tributary-${config.INSTANCE_NAME}-replay`;
  const pool = openPool(config.POSTGRES_URL, { name, max: 5, timeoutMs: STORE_MS });
  const clickhouse = openClickhouse(config.CLICKHOUSE_URL, { name });
  const redis = openRedis(config.REDIS_URL, STORE_MS);
  const stores = {
    clickhouse: clickhouseStore(clickhouse),
    postgres: postgresStore(pool),
    redis: redisStore(redis, hintPrefixOf(config), { has: () => true, shed: metrics.countShed }),
  };
  const close = async (): Promise<void> => {
    redis.disconnect();
    await Promise.all([pool.end(), clickhouse.close()]);
  };
  return { pool, stores, close };
};

/** Tries a step of a replay again until its deadline; each try is counted and logged. */
const retryStep =
  ({ metrics, log }: ReplayLaneSettings): LanePorts["retry"] =>
  (step, work, between) =>
    retry(work, {
      deadlineMs: STEP_DEADLINE_MS,
      beforeWait: async (error, tries) => {
        metrics.countRetry(step);
        log.warn("step.retried", { step, tries, error });
        await between();
      },
    });

/** Opens the log and the registry when the first replay comes. */
export const openReplayLane = (settings: ReplayLaneSettings): Resource<Schedule> => {
  const { topology, kafka, registry, produce, suppressions, log } = settings;
  const { pool, stores, close } = openLaneStores(settings);
  const read = replayableSinks(topology).map(({ from }) => from);
  let wire: Wire | undefined;
  let admin: Admin | undefined;

  const lane: ReplaySchedulePorts["lane"] = async () => {
    wire ??= await openWire([...new Set([...read, topics.operations])], registry);
    admin ??= await kafka.admin();
    // A replay does not bring back subjects that were erased before it was requested.
    await suppressions.hides("now");
    return {
      ...{ pool, kafka, admin, topology, wire, produce, stores, log },
      traffic: liveTrafficOf(admin, topology),
      withholds: () => withholdsOf(suppressions),
      knownRefusals: (letters) => knownRefusals(pool, letters),
      retry: retryStep(settings),
    };
  };
  return {
    value: replays({ pool, lane, log }),
    stop: async () => {
      await Promise.all([close(), admin?.close()]);
    },
  };
};

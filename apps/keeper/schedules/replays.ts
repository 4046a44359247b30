// The schedule of the replay lane: claims the oldest replay that is open and works it off, a minute
// at a time.
import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import type { Pool } from "pg";
import type { openRegistry } from "../../../infra/avro/registry.ts";
import { openWire } from "../../../infra/avro/wire.ts";
import { openClickhouse } from "../../../infra/clickhouse/client.ts";
import type { Admin, Kafka } from "../../../infra/kafka/kafka.ts";
import { openPool } from "../../../infra/postgres/sql.ts";
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

/**
 * Then the next turn goes on: a schedule that does not return counts as dead. Joining the log again
 * costs a second of it.
 */
const TURN_MS = 60_000;

interface ReplaySchedulePorts {
  readonly pool: Pool;
  /** Opened when a replay begins: the log and the registry may be away while there is none. */
  readonly lane: () => Promise<LanePorts & OperationPorts>;
  readonly log: Pick<Log, "info">;
}

/**
 * One replay at a time, whatever processes run. What it does is said in the audit before it begins
 * and when it ends.
 */
const replays = ({ pool, lane, log }: ReplaySchedulePorts): Schedule => {
  // Of this process alone: one that was killed is taken over when its lease ends.
  const owner = randomUUID();
  /** Begun here and not ended yet. */
  let begunHere: { readonly replay_id: string; readonly operation: RunningOperation } | undefined;

  const begun = async (ports: OperationPorts, replay: Replay): Promise<RunningOperation> => {
    if (begunHere?.replay_id === replay.replay_id) return begunHere.operation;
    const { replay_id, actor, from_at, to_at, sinks, positions } = replay;
    const window = `${new Date(from_at).toISOString()}/${to_at === null ? "" : new Date(to_at).toISOString()}`;
    const operation = await beginOperation(
      ports,
      { kind: "replay", actor, target: replay_id },
      { window, sinks, positions },
    );
    begunHere = { replay_id, operation };
    return operation;
  };

  return {
    name: "replays",
    pauseMs: 500,
    work: async (isClosing) => {
      const replay = await claimReplay(pool, owner);
      if (replay === undefined) return 0;
      if (replay === "busy") return "busy";
      const owned = ownedReplay(pool, replay.replay_id, owner);
      let isLost = false;
      const renewing = setInterval(() => {
        owned.renew().catch((error) => {
          isLost ||= error instanceof LaneLost;
        });
      }, leaseMs / 3);
      const end = performance.now() + TURN_MS;
      try {
        const ports = await lane();
        const operation = await begun(ports, replay);
        const became = await workOff(replay, owner, ports, () => isLost || isClosing() || performance.now() > end);
        if (became === "interrupted") {
          if (!isLost) await owned.release();
          return 0;
        }
        begunHere = undefined;
        const { ok: _, state: __, ...said } = reportOf((await readReplay(pool, replay.replay_id)) ?? replay);
        await operation.end("succeeded", said);
        log.info("replay.done", {
          replay_id: said.replay_id,
          requeued: said.events_requeued,
          suppressed: said.events_suppressed,
        });
        return 1;
      } catch (error) {
        // Cancelled, or taken over by a process that found this one asleep.
        if (error instanceof LaneLost) {
          await begunHere?.operation.end("failed", {
            replay_id: replay.replay_id,
            message: "cancelled, or taken over",
          });
          begunHere = undefined;
          return 0;
        }
        if (classify(error) === "transient") await owned.release().catch(() => undefined);
        else {
          const message = (error as Error).message;
          await owned.end("failed", { file: "", message }).catch(() => undefined);
          await begunHere?.operation.end("failed", { replay_id: replay.replay_id, message }).catch(() => undefined);
          begunHere = undefined;
        }
        throw error;
      } finally {
        clearInterval(renewing);
      }
    },
  };
};

// As a worker: a step is tried for 60 s, within which every fault must be over (docs/design/laws.md
// L1), and a store that hangs is given up after 5.
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

/**
 * With connections of its own, made when the first replay comes: what it writes waits for nothing
 * else that the keeper does.
 */
export const openReplayLane = (settings: ReplayLaneSettings): Resource<Schedule> => {
  const { config, topology, kafka, registry, produce, suppressions, metrics, log } = settings;
  const name = `tributary-${config.INSTANCE_NAME}-replay`;
  const pool = openPool(config.POSTGRES_URL, { name, max: 5, timeoutMs: STORE_MS });
  const clickhouse = openClickhouse(config.CLICKHOUSE_URL, { name });
  const redis = new Redis(config.REDIS_URL, { lazyConnect: true, maxRetriesPerRequest: 1, commandTimeout: STORE_MS });
  // The command that meets a broken connection fails and is tried again; without a listener the
  // error would be printed as well.
  redis.on("error", () => undefined);
  const read = replayableSinks(topology).map(({ from }) => from);
  let wire: Wire | undefined;
  let admin: Admin | undefined;

  const lane: ReplaySchedulePorts["lane"] = async () => {
    wire ??= await openWire([...new Set([...read, topics.operations])], registry);
    admin ??= await kafka.admin();
    // Subjects erased before a replay was asked for do not come back with it.
    await suppressions.hides("now");
    return {
      pool,
      kafka,
      admin,
      topology,
      wire,
      produce,
      traffic: liveTrafficOf(admin, topology),
      stores: {
        clickhouse: clickhouseStore(clickhouse),
        postgres: postgresStore(pool),
        redis: redisStore(redis, hintPrefixOf(config), { has: () => true, shed: metrics.countShed }),
      },
      withholds: () => withholdsOf(suppressions),
      knownRefusals: (letters) => knownRefusals(pool, letters),
      retry: (step, work, between) =>
        retry(work, {
          deadlineMs: STEP_DEADLINE_MS,
          beforeWait: async (error, tries) => {
            metrics.countRetry(step);
            log.warn("step.retried", { step, tries, error });
            await between();
          },
        }),
      log,
    };
  };
  return {
    value: replays({ pool, lane, log }),
    stop: async () => {
      redis.disconnect();
      await Promise.all([pool.end(), clickhouse.close(), admin?.close()]);
    },
  };
};

// The schedule of moves of the log: takes moves that were requested over the platform API and
// carries out a few at once, each on its own group.
import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import type { Pool } from "pg";
import type { openRegistry } from "../../../infra/avro/registry.ts";
import { openWire } from "../../../infra/avro/wire.ts";
import type { Admin, Kafka } from "../../../infra/kafka/kafka.ts";
import { openPool } from "../../../infra/postgres/sql.ts";
import { openRedis } from "../../../infra/redis/client.ts";
import { CommandRefused } from "../../../infra/runtime/command-errors.ts";
import { classify } from "../../../infra/runtime/errors.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import type { Resource } from "../../../infra/runtime/scope.ts";
import type { Schedule } from "../../../infra/runtime/timing/schedule.ts";
import { HeldElsewhere } from "../../../modules/log/groups/group-holds.ts";
import { RewindRefused, type RewindSources } from "../../../modules/log/rewind/rewind-ports.ts";
import { type Installation, openReprocessing } from "../../../modules/money/reprocess/running/open.ts";
import {
  leaveMove,
  RENEWED_EVERY_MS,
  reportMove,
  type TakenMove,
  takeMove,
} from "../../../modules/running/log-jobs/moves.ts";
import { endMove, runMove } from "../../../modules/running/log-jobs/run-move.ts";
import { runReprocess } from "../../../modules/running/log-jobs/run-reprocess.ts";
import type { Topology } from "../../../stream/flow.ts";
import type { Produce } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";
import { topics } from "../../../topics.ts";
import type { Config } from "../config.ts";

const AT_ONCE = 3;
const STORE_MS = 5_000;
/** A move that cannot continue now is tried again after this time. */
const AGAIN_SECONDS = 5;

/** This process must not continue a move: it closes, or another keeper has taken the move over. */
class MoveGivenUp extends Error {}

export interface MoveSettings {
  readonly config: Pick<
    Config,
    | "INSTANCE_NAME"
    | "POSTGRES_URL"
    | "REDIS_URL"
    | "KAFKA_TOPIC_PREFIX"
    | "SCHEMA_REGISTRY_URL"
    | "CLICKHOUSE_URL"
    | "OBJECT_STORE_URL"
    | "TRIBUTARY_SECRET"
    | "GEOIP_CITY_DB"
    | "GEOIP_ASN_DB"
    | "NETWORKS_FILE"
  >;
  readonly topology: Topology;
  readonly kafka: Kafka;
  readonly registry: ReturnType<typeof openRegistry>;
  readonly produce: Produce;
  readonly log: Pick<Log, "info" | "warn">;
}

/** The resources that reprocessing opens for itself and closes at its end. */
const installationOf = ({ config, kafka, log }: MoveSettings): Installation => ({
  ...{ kafka, log, registryUrl: config.SCHEMA_REGISTRY_URL, topicPrefix: config.KAFKA_TOPIC_PREFIX },
  ...{ clickhouseUrl: config.CLICKHOUSE_URL, objectStoreUrl: config.OBJECT_STORE_URL },
  ...{ keyring: config.TRIBUTARY_SECRET, files: config },
});

/**
 * Connections for moves alone, because a move holds one for as long as it takes. The log and the
 * registry are opened for the first move.
 */
const openSources = ({ config, topology, kafka, registry, produce }: MoveSettings) => {
  const pool = openPool(config.POSTGRES_URL, {
    name: `tributary-${config.INSTANCE_NAME}-moves`,
    max: 2 * AT_ONCE,
    timeoutMs: STORE_MS,
  });
  const redis = openRedis(config.REDIS_URL, STORE_MS);
  let wire: Wire | undefined;
  let admin: Admin | undefined;
  return {
    pool,
    redis,
    rewinding: async (): Promise<RewindSources> => {
      wire ??= await openWire([topics.operations], registry);
      admin ??= await kafka.admin();
      return { pool, kafka, admin, audit: { wire, produce }, topology };
    },
    close: async (): Promise<void> => {
      redis.disconnect();
      await Promise.all([pool.end(), admin?.close()]);
    },
  };
};

/**
 * A run takes a move and returns. Moves under way continue beside it, and are left to another
 * keeper when the schedule stops.
 */
export const openMoves = (settings: MoveSettings): Resource<Schedule> => {
  const { config, log } = settings;
  const { pool, redis, rewinding, close } = openSources(settings);
  // Every process has its own: another follows a killed one when its lease ends.
  const owner = randomUUID();
  const closing = new AbortController();
  const underWay = new Set<Promise<void>>();

  const start = (taken: TakenMove, opened: RewindSources): void => {
    const going = carryOut(taken, {
      rewinding: opened,
      installation: installationOf(settings),
      redis,
      prefix: `${config.KAFKA_TOPIC_PREFIX}memory`,
      closing,
      log,
    })
      // Postgres is away: the lease ends by itself, and the next keeper continues.
      .catch((error) => log.warn("move.left", { operation_id: taken.operation_id, error }))
      .finally(() => underWay.delete(going));
    underWay.add(going);
  };
  return {
    value: {
      name: "moves",
      pauseMs: 1_000,
      work: async (isClosing) => {
        for (let taken = 0; ; taken += 1) {
          if (isClosing() || underWay.size >= AT_ONCE) return taken;
          const move = await takeMove(pool, owner);
          if (move === undefined) return taken;
          start(move, await rewinding());
        }
      },
    },
    stop: async () => {
      closing.abort(new MoveGivenUp("the keeper closes"));
      await Promise.all(underWay);
      await close();
    },
  };
};

interface MoveRun {
  readonly rewinding: RewindSources;
  readonly installation: Installation;
  readonly redis: Redis;
  readonly prefix: string;
  readonly closing: AbortController;
  readonly log: MoveSettings["log"];
}

const carryOut = async (taken: TakenMove, carrying: MoveRun): Promise<void> => {
  const { rewinding, installation, redis, prefix, closing, log } = carrying;
  const { pool, audit } = rewinding;
  const { operation_id } = taken;
  const lost = new AbortController();
  const signal = AbortSignal.any([closing.signal, lost.signal]);
  const seen: { step?: string; done?: number; total?: number } = {};
  const renewing = renewed(pool, taken, seen, lost);
  try {
    const heard = {
      signal,
      onStep: (step: string) => void Object.assign(seen, { step }),
      onProgress: (done: number, total: number) => void Object.assign(seen, { done, total }),
    };
    await (taken.request.move === "reprocess"
      ? runReprocess(taken, { ...heard, pool, open: (opening) => openReprocessing(pool, installation, opening) })
      : runMove(taken, { ...heard, rewinding, redis, memoryPrefix: prefix }));
    log.info("move.done", { operation_id });
  } catch (error) {
    const { message } = error as Error;
    if (lost.signal.aborted) return;
    if (closing.signal.aborted) return await leaveMove(pool, taken, "its keeper was stopped; another goes on", 0);
    if (error instanceof RewindRefused || error instanceof CommandRefused)
      return await endMove({ pool, audit }, taken, "refused", message);
    log.warn("move.failed", { operation_id, error });
    if (error instanceof HeldElsewhere || classify(error) === "transient")
      return await leaveMove(pool, taken, message, AGAIN_SECONDS);
    await endMove({ pool, audit }, taken, "failed", message);
  } finally {
    clearInterval(renewing);
  }
};

/** Reports every few seconds how far the move is; aborts `lost` when another keeper has it. */
const renewed = (pool: Pool, taken: TakenMove, seen: object, lost: AbortController): NodeJS.Timeout =>
  setInterval(() => {
    reportMove(pool, taken, { ...seen }).then(
      (isOurs) => {
        if (!isOurs) lost.abort(new MoveGivenUp("another keeper has it"));
      },
      // Postgres may be back before the lease ends; if not, another keeper takes it over.
      () => undefined,
    );
  }, RENEWED_EVERY_MS);

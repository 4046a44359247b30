// The schedule of jobs: work that a request has asked for and that outlives the request.
import type { Pool } from "pg";
import { openClickhouse } from "../../../infra/clickhouse/client.ts";
import { postgresMemory } from "../../../infra/postgres/durable-memory.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import type { Resource } from "../../../infra/runtime/scope.ts";
import type { Schedule } from "../../../infra/runtime/timing/schedule.ts";
import { workOff } from "../../../modules/base/jobs/work-off.ts";
import { openReference } from "../../../modules/catalog/reference/reference.ts";
import { keepUndone, type UndoJob } from "../../../modules/intake/imports/undo-result.ts";
import { followBackfill } from "../../../modules/money/trials/after-backfill.ts";
import { runBackfill } from "../../../modules/money/trials/backfill.ts";
import { runUndo } from "../../../modules/money/undo/undo-import.ts";
import { openHistory } from "../../../sinks/analytics/history.ts";
import type { Produce } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";
import { pipeline } from "../../../topology.ts";
import type { Config } from "../config.ts";

export interface JobSettings {
  readonly config: Config;
  readonly pool: Pool;
  /** Opened for every topic of the topology. */
  readonly wire: Wire;
  readonly produce: Produce;
  readonly log: Log;
}

/**
 * The length of a turn; the next turn continues. A schedule that does not return counts as dead.
 */
const TURN_MS = 30_000;
/** A statement reads weeks of a client's history. */
const HISTORY_MS = 60_000;

/** Has its own connection to ClickHouse, so that no other schedule waits for a history. */
export const openJobs = ({ config, pool, wire, produce, log }: JobSettings): Resource<Schedule> => {
  const name = `tributary-${config.INSTANCE_NAME}-jobs`;
  const clickhouse = openClickhouse(config.CLICKHOUSE_URL, { name, connections: 2, timeoutMs: HISTORY_MS });
  const memory = postgresMemory(pool);
  const works = workOff({
    pool,
    log,
    works: {
      backfill: {
        run: async (job, report) => {
          const known = openReference(pool);
          const ports = {
            topology: pipeline,
            wire,
            memory,
            read: known.read,
            history: openHistory(clickhouse),
            pool,
            produce,
          };
          try {
            return await runBackfill({ ...ports, clock: Date.now }, job, report);
          } finally {
            await known.close();
          }
        },
        completed: followBackfill,
      },
      import_undo: {
        run: (job, report) => runUndo({ pool, clickhouse, wire, produce }, job, report),
        completed: (tx, { input }, undone) => keepUndone(tx, (input as UndoJob).import_id, undone),
      },
    },
  });
  return {
    value: { name: "jobs", pauseMs: 1_000, work: (isClosing) => works.turn(TURN_MS, isClosing) },
    stop: async () => {
      await works.stop();
      await clickhouse.close();
    },
  };
};

// Probes stores with real round trips, so that an open port of a store that does no work does not
// count as healthy.
import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import type { Pool } from "pg";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import type { Objects } from "../../../infra/objects/objects.ts";
import { pingPostgres } from "../../../infra/postgres/ping.ts";
import { within } from "../../../infra/runtime/timing/time-limit.ts";
import { LATE } from "./findings.ts";
import type { ProbeName } from "./incident.ts";
import { checkFilled, type OlderRecords, orTablesGone } from "./lost-data.ts";

/**
 * Rejects with one sentence when the store does not do its work. `alerted` is the error of the open
 * incident; null: there is none.
 */
export type Look = (alerted: string | null) => Promise<void>;

export interface ProbePorts {
  /** The id of this keeper. Keepers probe with separate values. */
  readonly instance: string;
  readonly clickhouse: Clickhouse;
  readonly redis: Redis;
  readonly objects: Objects;
  readonly pool: Pool;
  /**
   * Returns the age in seconds of the oldest conversion that is not in `product_sales` yet; rejects
   * while the log is unreachable.
   */
  readonly syncLag: () => Promise<number>;
  /** How many records that the log still holds were read into ClickHouse, by how old they are. */
  readonly readIntoClickhouse: () => Promise<readonly OlderRecords[]>;
  /** Sends a record through the log and back (log-probe.ts). */
  readonly eventLog: () => Promise<void>;
  /** Finds groups that do not move (standing-groups.ts). */
  readonly eventProcessing: Look;
  readonly topicPrefix: string;
}

/** A lag above half an hour raises an alert (docs/design/contracts.md, "Probes"). */
export const SYNC_LAG_LIMIT_SEC = 1_800;

const same = (found: unknown, written: string): void => {
  if (found !== written) throw new Error("what was written was not read back");
};

export const openProbes = ({
  instance,
  clickhouse,
  redis,
  objects,
  pool,
  syncLag,
  readIntoClickhouse,
  eventLog,
  eventProcessing,
  topicPrefix,
}: ProbePorts): Readonly<Record<ProbeName, Look>> => ({
  analytics_store: async (alerted) => {
    const value = randomUUID();
    await orTablesGone(
      clickhouse.insert({
        table: "probe",
        columns: ["instance", "value", "written_at"],
        values: [[instance, value, new Date().toISOString().slice(0, -1)]],
        format: "JSONCompactEachRow",
      }),
    );
    const answer = await clickhouse.query({
      query: "select value from probe final where instance = {instance: String}",
      query_params: { instance },
      format: "JSONEachRow",
    });
    same((await answer.json<{ value: string }>())[0]?.value, value);
    await orTablesGone(checkFilled(clickhouse, readIntoClickhouse, alerted));
  },
  cache_store: async () => {
    const [key, value] = [`${topicPrefix}probe:${instance}`, randomUUID()];
    await redis.set(key, value, "EX", 3_600);
    same(await redis.get(key), value);
  },
  object_store: async () => {
    const [key, value] = [`probe/${instance}`, randomUUID()];
    await objects.put(key, Buffer.from(value));
    same((await objects.get(key)).toString(), value);
    await objects.delete(key);
  },
  relational_store: async (alerted) => {
    await pingPostgres(pool);
    const seconds = await syncLag().catch(() => null);
    // The log has a probe of its own. While the log is unreachable the lag is unknown, so an alert
    // about it is neither raised nor resolved.
    if (seconds === null && alerted?.startsWith(LATE) === true) throw new Error(alerted);
    if (seconds !== null && seconds > SYNC_LAG_LIMIT_SEC)
      throw new Error(`${LATE} ${Math.round(seconds)} s late, more than ${SYNC_LAG_LIMIT_SEC} s`);
  },
  event_log: eventLog,
  event_processing: eventProcessing,
});

/** Returns null, or the error in one line. A probe that hangs fails after `withinMs`. */
export const answerOf = async (look: Look, withinMs: number, alerted: string | null = null): Promise<string | null> => {
  try {
    await within(withinMs, look(alerted), `no answer within ${withinMs / 1_000} s`);
    return null;
  } catch (error) {
    return (error instanceof Error ? error.message || (error as { code?: string }).code || error.name : String(error))
      .replace(/\s+/g, " ")
      .slice(0, 300);
  }
};

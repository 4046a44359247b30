// The probes: real round trips, so that an open port of a store that does no work is not taken
// for health.
import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import type { Pool } from "pg";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import type { Objects } from "../../../infra/objects/objects.ts";
import { within } from "../../../infra/runtime/timing/within.ts";
import type { ProbeName } from "./incident.ts";

/**
 * Rejects, in one sentence, when the store does not do its work. `alerted` is what an open incident
 * is about; null: there is none.
 */
export type Look = (alerted: string | null) => Promise<void>;

export interface ProbePorts {
  /** Of this keeper; two keepers do not meet each other's values. */
  readonly instance: string;
  readonly clickhouse: Clickhouse;
  readonly redis: Redis;
  readonly objects: Objects;
  readonly pool: Pool;
  /**
   * Age in seconds of the oldest conversion that is not in `product_sales` yet; rejects while the
   * log cannot be asked.
   */
  readonly syncLag: () => Promise<number>;
  /** A record through the log and back (log-probe.ts). */
  readonly eventLog: () => Promise<void>;
  readonly topicPrefix: string;
}

/** docs/design/contracts.md, "Probes": an alert above half an hour. */
export const SYNC_LAG_LIMIT_SEC = 1_800;

/** How an alert about the lag begins. */
const LATE = "sales reach Postgres";

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
  eventLog,
  topicPrefix,
}: ProbePorts): Readonly<Record<ProbeName, Look>> => ({
  analytics_store: async () => {
    const value = randomUUID();
    await clickhouse.insert({
      table: "probe",
      columns: ["instance", "value", "written_at"],
      values: [[instance, value, new Date().toISOString().slice(0, -1)]],
      format: "JSONCompactEachRow",
    });
    const answer = await clickhouse.query({
      query: "select value from probe final where instance = {instance: String}",
      query_params: { instance },
      format: "JSONEachRow",
    });
    same((await answer.json<{ value: string }>())[0]?.value, value);
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
    await pool.query("select 1");
    const seconds = await syncLag().catch(() => null);
    // The log has a probe of its own. While it cannot be asked the lag is not known: an alert
    // about it is not raised, and not taken back either.
    if (seconds === null && alerted?.startsWith(LATE) === true) throw new Error(alerted);
    if (seconds !== null && seconds > SYNC_LAG_LIMIT_SEC)
      throw new Error(`${LATE} ${Math.round(seconds)} s late, more than ${SYNC_LAG_LIMIT_SEC} s`);
  },
  event_log: eventLog,
});

/** Null, or its error in one line. What hangs counts as failed after `withinMs`. */
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

// Reports the health of the stores: asks each store now, and adds the results of the keepers'
// probes.
import type { Pool } from "pg";
import type { UnixMs } from "../../../stream/flow.ts";
import { isoOrNull } from "../../base/days.ts";
import { listProbes, type ProbeRow } from "./probe-states.ts";
import { answerOf, type Look } from "./probes.ts";

export interface HealthPorts {
  readonly version: string;
  /** When this process began to serve. */
  readonly startedAt: UnixMs;
  readonly pool: Pool;
  readonly analytics: Look;
  readonly cache: Look;
  readonly relational: Look;
}

const PROBE_MS = 2_000;
const HOUR_MS = 3_600_000;
/** Three rounds of the slowest probe: after that no keeper probes any more. */
export const STALE_MS = 180_000;

type StoreState = "ok" | "down";

/** Asks three stores. Of object storage and the sync of sales the last probe counts. */
export const basicHealth = async ({ version, startedAt, pool, analytics, cache, relational }: HealthPorts) => {
  const stateOf = async (look: Look): Promise<StoreState> =>
    (await answerOf(look, PROBE_MS)) === null ? "ok" : "down";
  const [analyticsStore, cacheStore, relationalStore, probes] = await Promise.all([
    stateOf(analytics),
    stateOf(cache),
    stateOf(relational),
    listProbes(pool).catch(() => []),
  ]);
  const isDown = [analyticsStore, cacheStore, relationalStore].includes("down");
  const isDegraded = probes.some(({ state }) => state === "restarting" || state === "down");
  return {
    status: isDown ? "down" : isDegraded ? "degraded" : "ok",
    version,
    uptime_sec: Math.floor((Date.now() - startedAt) / 1_000),
    analytics_store: analyticsStore,
    cache_store: cacheStore,
    relational_store: relationalStore,
  };
};

/** The answer lists the log and what is done with it beside the four stores. */
const BESIDE = ["event_log", "event_processing"];

/** `status` is degraded also when no keeper has probed for three rounds. */
export const detailedHealth = (rows: readonly ProbeRow[], now: UnixMs) => {
  const isStale = rows.some(({ checked_at }) => checked_at === null || now - checked_at > STALE_MS);
  const shown = rows.map((row) => shownProbe(row, now));
  const isOk = rows.every(({ state }) => state === "healthy") && !isStale;
  return {
    status: rows.some(({ state }) => state === "down") ? "down" : isOk ? "ok" : "degraded",
    probes: shown.filter(({ name }) => !BESIDE.includes(name)),
    ...Object.fromEntries(BESIDE.map((beside) => [beside, shown.find(({ name }) => name === beside) ?? null])),
  };
};

const shownProbe = (row: ProbeRow, now: UnixMs) => ({
  name: row.name,
  state: row.state,
  failures: row.failures,
  last_ok_at: isoOrNull(row.last_ok_at),
  last_error: row.last_error,
  restarts: row.restarted_at.filter((at) => now - at < HOUR_MS).length,
  since: isoOrNull(row.since),
  checked_at: isoOrNull(row.checked_at),
  incident_id: row.incident_id,
});

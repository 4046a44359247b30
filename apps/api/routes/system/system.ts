// The routes of monitoring: how the stores are, what the keeper knows of each, and the door for
// alerts.
import type { Pool } from "pg";
import { orUnavailable, Problem, unavailable } from "../../../../infra/http/problem.ts";
import { readAlert } from "../../../../modules/base/alerts/alert.ts";
import { alertRef } from "../../../../modules/base/alerts/kept-alerts.ts";
import { ingestPath } from "../../../../modules/intake/path/ingest-path.ts";
import { listProbes, type ProbeRow } from "../../../../modules/running/repair/probe-states.ts";
import { answerOf, type Look } from "../../../../modules/running/repair/probes.ts";
import { readHealth, readIngestPath, readSystemHealth, sendAlert } from "../../contract/system/system.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

const PROBE_MS = 2_000;
const CACHED_MS = 2_000;
/** Three rounds of the keeper: then no keeper probes. */
const STALE_MS = 180_000;

export const routes = (ports: ApiPorts): readonly Route[] => {
  const health = cached(() => basicHealth(ports), CACHED_MS);
  const basic = async () => {
    const body = await health();
    return body.status === "down" ? { status: 503, body, headers: { "Retry-After": "5" } } : { body };
  };
  return [
    route(readHealth, basic, { isUnlimited: true }),
    route(readSystemHealth, async () => ({ body: detailedHealth(await known(ports.pool), Date.now()) })),
    route(readIngestPath, async () => ({ body: await pathHistory(ports.pool) })),
    route(sendAlert, async ({ body, sender }) => {
      const read = readAlert(body);
      if ("wrong" in read) throw new Problem("validation_failed", "this is no alert", { errors: read.wrong });
      // The reason is in the log.
      const by = { actor: "service", role: "service", ...sender };
      const { alert_id, mailed } = await ports.reportAlert(read.alert, by).catch(() => {
        throw unavailable("the alert can be neither kept nor mailed now", 2);
      });
      const { incident_id } = read.alert;
      return { body: { alert_id: alert_id === null ? null : alertRef(alert_id), incident_id, mailed } };
    }),
  ];
};

const pathHistory = async (pool: Pool) => {
  const path = await ingestPath(pool).catch(orUnavailable("the checks of the way into the log cannot be read now", 2));
  const shown = <T extends { readonly checked_at: number }>(check: T) => ({
    ...check,
    checked_at: iso(check.checked_at),
  });
  const instances = path.instances.map((check) => ({ ...shown(check), since: iso(check.since) }));
  return {
    ...path,
    since: iso(path.since),
    checked_at: iso(path.checked_at),
    instances,
    history: path.history.map(shown),
  };
};

const known = (pool: Pool): Promise<readonly ProbeRow[]> =>
  listProbes(pool).catch(orUnavailable("the states of the stores cannot be read now", 2));

type Store = "ok" | "down";
const basicHealth = async ({ version, startedAt, pool, analytics, cache, relational }: ApiPorts) => {
  const stateOf = async (look: Look): Promise<Store> => ((await answerOf(look, PROBE_MS)) === null ? "ok" : "down");
  const [analyticsStore, cacheStore, relationalStore, probes] = await Promise.all([
    stateOf(analytics),
    stateOf(cache),
    stateOf(relational),
    listProbes(pool).catch(() => []),
  ]);
  const isDown = [analyticsStore, cacheStore, relationalStore].includes("down");
  // Object storage and the sync of sales are not asked here: what the keeper has found of them
  // counts.
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

const iso = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString());

/** The probes of the interface are the four stores; the log stands beside them. */
const LOG = "event_log";

/** `status` is degraded too when no keeper has probed for three rounds. */
export const detailedHealth = (rows: readonly ProbeRow[], now: number) => {
  const isStale = rows.some(({ checked_at }) => checked_at === null || now - checked_at > STALE_MS);
  const shown = rows.map((row) => shownProbe(row, now));
  const isOk = rows.every(({ state }) => state === "healthy") && !isStale;
  return {
    status: rows.some(({ state }) => state === "down") ? "down" : isOk ? "ok" : "degraded",
    probes: shown.filter(({ name }) => name !== LOG),
    [LOG]: shown.find(({ name }) => name === LOG) ?? null,
  };
};

const shownProbe = (row: ProbeRow, now: number) => ({
  name: row.name,
  state: row.state,
  failures: row.failures,
  last_ok_at: iso(row.last_ok_at),
  last_error: row.last_error,
  restarts: row.restarted_at.filter((at) => now - at < 3_600_000).length,
  since: iso(row.since),
  checked_at: iso(row.checked_at),
  incident_id: row.incident_id,
});

/** Callers at once share one answer, and those within `forMs` the last one. */
const cached = <T>(ask: () => Promise<T>, forMs: number): (() => Promise<T>) => {
  let latest: { readonly at: number; readonly answer: Promise<T> } | undefined;
  return () => {
    const now = performance.now();
    if (latest === undefined || now - latest.at > forMs) latest = { at: now, answer: ask() };
    return latest.answer;
  };
};

// Reads which path events take into the log: edges record it hourly and at each change.
import type pg from "pg";
import { sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { isoOrNull } from "../../base/days.ts";
import type { IngestPathCheck, IngestPathState } from "./path-checks.ts";

export interface IngestPath {
  /** The worst state of all edges that report; null before the first report. */
  readonly state: IngestPathState | null;
  /** When this state began. */
  readonly since: UnixMs | null;
  /** The newest check of any edge. */
  readonly checked_at: UnixMs | null;
  readonly instances: readonly (IngestPathCheck & { readonly since: UnixMs })[];
  /**
   * The newest changes of all edges, newest first. An edge that flaps pushes out the changes of
   * others.
   */
  readonly history: readonly IngestPathCheck[];
}

/**
 * An edge that has missed two hourly checks is gone or cannot reach Postgres, so its last state no
 * longer counts.
 */
const SILENT_MS = 2.5 * 3_600_000;
const HISTORY = 100;
const WORST: readonly IngestPathState[] = ["both_down", "primary_down", "operational"];

/** The path as an answer shows it, with times as RFC 3339. */
export const shownPath = (path: IngestPath) => {
  const shown = (check: IngestPathCheck) => ({ ...check, checked_at: isoOrNull(check.checked_at) });
  return {
    ...path,
    since: isoOrNull(path.since),
    checked_at: isoOrNull(path.checked_at),
    instances: path.instances.map((check) => ({ ...shown(check), since: isoOrNull(check.since) })),
    history: path.history.map(shown),
  };
};

/** Rejects when Postgres is unreachable. */
export const ingestPath = async (pool: pg.Pool, now: UnixMs = Date.now()): Promise<IngestPath> => {
  const { rows: changes } = await pool.query<IngestPathCheck>(sql`
    select instance, state, checked_at, waiting_events::int as waiting_events, reason from (
      select *, lag(state) over (partition by instance order by checked_at, check_id) as before from ingest_path_checks
    ) as checks where before is distinct from state order by checked_at desc limit ${HISTORY}`);
  const { rows: instances } = await pool.query<IngestPathCheck & { readonly since: UnixMs }>(sql`
    select distinct on (instance) instance, state, checked_at, waiting_events::int as waiting_events, reason, since
    from (
      select *, max(checked_at) filter (where before is distinct from state) over (partition by instance) as since
      from (
        select *, lag(state) over (partition by instance order by checked_at, check_id) as before
          from ingest_path_checks
      ) as checks
    ) as dated where checked_at > ${new Date(now - SILENT_MS)} order by instance, checked_at desc, check_id desc`);
  const state = WORST.find((one) => instances.some((instance) => instance.state === one)) ?? null;
  const since = instances.filter((instance) => instance.state === state).map((instance) => instance.since);
  return {
    state,
    // All are operational since the last of them recovered; not all are since the first of them
    // failed.
    since: since.length === 0 ? null : state === "operational" ? Math.max(...since) : Math.min(...since),
    checked_at: instances.length === 0 ? null : Math.max(...instances.map(({ checked_at: at }) => at)),
    instances,
    history: changes,
  };
};

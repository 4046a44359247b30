// Reports whether external sources are pulled in time, and the result of the last pull of each.
import type { Pool } from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { PULLED, type PullCounts } from "./pulls.ts";

export interface PullHealth {
  /**
   * Last pull of the source that was pulled longest ago; null: no source is active, or one was
   * never pulled.
   */
  readonly lastPullAt: UnixMs | null;
  /** True when a source was not pulled for an hour, or never since its last change an hour ago. */
  readonly isLate: boolean;
  /** Sums over the last pull of every source. */
  readonly stats: PullCounts & {
    /** From the earliest start to the latest end, with the longest look-back; null: none yet. */
    readonly window: { readonly from: string; readonly to: string; readonly look_back_days: number } | null;
  };
}

/** Covers all sources that are pulled. `pool` must be allowed to take the role tributary_edge. */
export const pullHealth = (pool: Pool): Promise<PullHealth> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rows } = await tx.query<Row>(sql`
        select case when bool_or(last_pull_at is null) then null else min(last_pull_at) end as last_pull_at,
          coalesce(bool_or(coalesce(last_pull_at, updated_at) < clock_timestamp() - interval '1 hour'), false)
            as is_late,
          coalesce(sum((last_pull_stats->>'rows')::float8), 0) as rows,
          coalesce(sum((last_pull_stats->>'new')::float8), 0) as new,
          coalesce(sum((last_pull_stats->>'duplicate')::float8), 0) as duplicate,
          coalesce(sum((last_pull_stats->>'errors')::float8), 0) as errors,
          min((last_pull_stats#>>'{window,from}')::timestamptz) as from_at,
          max((last_pull_stats#>>'{window,to}')::timestamptz) as to_at,
          max((last_pull_stats#>>'{window,look_back_days}')::int) as look_back_days
        from sources s where ${PULLED}`);
      const { last_pull_at, is_late, from_at, to_at, look_back_days, ...counts } = rows[0]!;
      const isoOf = (at: UnixMs): string => new Date(at).toISOString();
      const window =
        from_at === null || to_at === null
          ? null
          : { from: isoOf(from_at), to: isoOf(to_at), look_back_days: look_back_days ?? 0 };
      return { lastPullAt: last_pull_at, isLate: is_late, stats: { ...counts, window } };
    },
    { role: "tributary_edge", isReadOnly: true },
  );

/**
 * Seconds since that active source was pulled which waits longest; a source that was never pulled
 * counts from its last change. 0: no source is pulled.
 */
export const pullAge = (pool: Pool): Promise<number> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rows } = await tx.query<{ seconds: number }>(sql`
        select coalesce(max(extract(epoch from clock_timestamp() - coalesce(last_pull_at, updated_at))), 0)::float8
          as seconds from sources s where ${PULLED}`);
      return rows[0]!.seconds;
    },
    { role: "tributary_edge", isReadOnly: true },
  );

interface Row extends PullCounts {
  readonly last_pull_at: UnixMs | null;
  readonly is_late: boolean;
  readonly from_at: UnixMs | null;
  readonly to_at: UnixMs | null;
  readonly look_back_days: number | null;
}

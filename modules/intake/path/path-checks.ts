// Records which path events take into the log: hourly, and soon after a change.

import type pg from "pg";
import { sql } from "../../../infra/postgres/sql.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import type { Resource } from "../../../infra/runtime/scope.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { PathName, PathState } from "./path.ts";

/**
 * operational: into the log.
 * primary_down: onto the disk of an edge, which drains it later.
 * both_down: only into object storage, or nowhere.
 */
export type IngestPathState = "operational" | "primary_down" | "both_down";

export interface IngestPathCheck {
  readonly instance: string;
  readonly state: IngestPathState;
  readonly checked_at: UnixMs;
  /** Null: unknown. */
  readonly waiting_events: number | null;
  readonly reason: string | null;
}
export interface PathCheckParts {
  readonly instance: string;
  readonly state: () => PathState;
  /**
   * Rejects while the log does not accept a record. Without it the path would look healthy as long
   * as there is no traffic.
   */
  readonly probe: () => Promise<void>;
  readonly record: (check: IngestPathCheck) => Promise<void>;
  readonly log: Pick<Log, "info" | "warn">;
  readonly now: () => UnixMs;
  readonly everyMs?: number;
  readonly lookMs?: number;
}

const HOUR_MS = 3_600_000;
/** A change is recorded within this time; a shorter one may be missed. */
const LOOK_MS = 5_000;
/** Checks that Postgres has not accepted yet; beyond this the oldest are dropped. */
const UNSAVED = 100;

const stateOf: Readonly<Record<PathName, IngestPathState>> = {
  primary: "operational",
  standby: "primary_down",
  both_down: "both_down",
};

interface PathFound {
  readonly state: IngestPathState;
  readonly reason: string | null;
}

/** Null if one of both is unknown. */
export const sumOrNull = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? null : a + b;

/**
 * The first check comes after `lookMs`, because an edge that has just started does not know its
 * path yet. Checks that cannot be saved are saved later, in order.
 */
export const openPathChecks = (parts: PathCheckParts): Resource<null> => {
  const { everyMs = HOUR_MS, lookMs = LOOK_MS } = parts;
  const unsaved: IngestPathCheck[] = [];
  let known: IngestPathState | undefined;
  let checkedAt = Number.NEGATIVE_INFINITY;
  let isTold = false;
  let looking: Promise<void> | undefined;

  const seenNow = (): PathFound => {
    const { path, spoolProblem } = parts.state();
    return {
      state: stateOf[path],
      reason: spoolProblem === null ? null : `what waits in the spool is unknown: ${spoolProblem}`,
    };
  };
  const found = async (): Promise<PathFound> => {
    const seen = seenNow();
    if (seen.state !== "operational") return seen;
    const problem = await parts.probe().then(
      () => null,
      (error: Error) => error.message,
    );
    return problem === null ? seen : { state: "primary_down", reason: problem };
  };
  const look = async (): Promise<void> => {
    const now = parts.now();
    const isDue = now - checkedAt >= everyMs;
    // Between two hourly checks only failures of requests count: a probe every five seconds would
    // be too much.
    const { state, reason } = isDue || known !== "operational" ? await found() : seenNow();
    if (isDue || state !== known) {
      const { spooledEvents, lastResortEvents } = parts.state();
      unsaved.push({
        instance: parts.instance,
        state,
        checked_at: now,
        waiting_events: sumOrNull(spooledEvents, lastResortEvents),
        reason,
      });
      if (unsaved.length > UNSAVED) unsaved.shift();
      if (state !== known) parts.log.info("ingest_path.is", { state, reason });
      known = state;
      checkedAt = now;
    }
    try {
      for (; unsaved[0] !== undefined; unsaved.shift()) await parts.record(unsaved[0]);
      isTold = false;
    } catch (error) {
      if (!isTold) parts.log.warn("ingest_path.not_recorded", { error });
      isTold = true;
    }
  };
  const once = (): Promise<void> => {
    looking ??= look().finally(() => {
      looking = undefined;
    });
    return looking;
  };
  const timer = setInterval(() => void once(), lookMs);
  return {
    value: null,
    stop: async () => {
      clearInterval(timer);
      await looking;
    },
  };
};

/**
 * Appends a check and deletes checks older than 90 days, including those of edges that are gone.
 */
export const recordIngestPath = async (pool: pg.Pool, check: IngestPathCheck): Promise<void> => {
  const { instance, state, checked_at: at, waiting_events: waiting, reason } = check;
  await pool.query(sql`insert into ingest_path_checks (instance, state, checked_at, waiting_events, reason)
    values (${instance}, ${state}, ${new Date(at)}, ${waiting}, ${reason})`);
  await pool.query(sql`delete from ingest_path_checks where checked_at < clock_timestamp() - interval '90 days'`);
};

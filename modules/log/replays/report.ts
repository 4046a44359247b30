// The report of a replay for people (docs/design/contracts.md, "Replay"), and the wait for its end.
// The HTTP route, the command line and the fault suite share it.
import { setTimeout as sleep } from "node:timers/promises";
import type { Pool } from "pg";
import { type AnySink, type Topology, writesRows } from "../../../stream/flow.ts";
import { isoOrNull } from "../../base/days.ts";
import { placeOf, type Replay, type ReplayError, type ReplayState, readReplay } from "./replays.ts";

/**
 * The sinks that a replay may name: those that write rows from the output of stages. The archive
 * copies the raw log, so it has nothing to replay.
 */
export const replayableSinks = ({ nodes }: Topology): readonly AnySink[] =>
  nodes.filter((node) => node.is === "sink").filter(writesRows);

export interface ReplayReport {
  /**
   * The replay has ended and wrote everything again except records that were refused the first time
   * too.
   */
  readonly ok: boolean;
  readonly replay_id: string;
  readonly state: ReplayState;
  readonly hours: number | null;
  /** Bounds are append times of the log. */
  readonly from: string;
  /** Null until the lane begins, when the window ends at that moment. */
  readonly to: string | null;
  readonly sinks: readonly string[];
  /** Log segments that were read: one partition's part of the window each. */
  readonly files_scanned: number;
  readonly events_requeued: number;
  /** Events that another replay had written since this one was requested. */
  readonly events_skipped_duplicate: number;
  /** Events of erased subjects. */
  readonly events_suppressed: number;
  /** Events that were refused: they are dead letters, or `errors` lists them. */
  readonly events_refused: number;
  readonly errors: readonly ReplayError[];
}

export const reportOf = (replay: Replay): ReplayReport => ({
  ok: replay.state === "done" && replay.errors.length === 0,
  replay_id: replay.replay_id,
  state: replay.state,
  hours: replay.hours,
  from: isoOrNull(replay.from_at)!,
  to: isoOrNull(replay.to_at ?? replay.started_at),
  sinks: replay.sinks,
  files_scanned: (replay.ranges ?? []).filter(
    (range) => (replay.positions[placeOf(range)] ?? range.start) > range.start,
  ).length,
  events_requeued: replay.requeued,
  events_skipped_duplicate: replay.skipped,
  events_suppressed: replay.suppressed,
  events_refused: replay.refused,
  errors: replay.errors,
});

/** Records passed and records in the window; both 0 until the lane begins. */
export const progressOf = ({ ranges, positions }: Replay): { readonly done: number; readonly total: number } => ({
  done: (ranges ?? []).reduce((sum, range) => sum + (positions[placeOf(range)] ?? range.start) - range.start, 0),
  total: (ranges ?? []).reduce((sum, { start, end }) => sum + end - start, 0),
});

export const hasEnded = ({ state }: Replay): boolean => state === "done" || state === "failed" || state === "cancelled";

/**
 * Nothing has moved for a while: no keeper runs, or a store is down. The replay itself stays open.
 */
export class ReplayStalled extends Error {
  readonly replay: Replay;
  constructor(replay: Replay, seconds: number) {
    super(
      replay.state === "waiting"
        ? `no keeper has taken ${replay.replay_id} up for ${seconds} s: is one running?`
        : `${replay.replay_id} has not moved for ${seconds} s: a store or the log may be away; the ` +
            "keeper's log says which",
    );
    this.name = "ReplayStalled";
    this.replay = replay;
  }
}

const ASKED_EVERY_MS = 250;

/**
 * Resolves with the replay once it has ended, whatever its outcome. Rejects with ReplayStalled when
 * neither it nor any replay before it has moved for `stalledMs`, and with the signal's reason when
 * the signal fires. The lane continues in either case.
 */
export const awaitReplay = async (
  pool: Pool,
  replayId: string,
  options: {
    readonly stalledMs: number;
    readonly onProgress?: (replay: Replay) => void;
    readonly signal?: AbortSignal;
  },
): Promise<Replay> => {
  let seen = "";
  let movedAt = performance.now();
  for (;;) {
    options.signal?.throwIfAborted();
    const replay = await readReplay(pool, replayId);
    if (replay === undefined) throw new Error(`there is no replay ${replayId}`);
    options.onProgress?.(replay);
    if (hasEnded(replay)) return replay;
    // A replay that waits for its turn counts as moving while an earlier one moves.
    const { rows } = await pool.query<{ moved: string }>(
      "select string_agg(replay_id || coalesce(moved_at::text, '') || attempts, ',' order by " +
        "replay_id) as moved from replays where state in ('waiting', 'running')",
    );
    const moved = rows[0]!.moved ?? "";
    if (moved !== seen) {
      seen = moved;
      movedAt = performance.now();
    }
    const silentMs = performance.now() - movedAt;
    if (silentMs > options.stalledMs) throw new ReplayStalled(replay, Math.round(silentMs / 1_000));
    await sleep(ASKED_EVERY_MS, undefined, options.signal === undefined ? {} : { signal: options.signal });
  }
};

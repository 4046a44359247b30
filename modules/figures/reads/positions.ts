// Reads how far the pipeline has stored the log; `as_of` of every figure follows from it.
import type { Pool } from "pg";
import { within } from "../../../infra/runtime/timing/time-limit.ts";
import { type UnixMs, writesRows } from "../../../stream/flow.ts";
import { pipeline } from "../../../topology.ts";
import type { Backlog } from "../../base/outbox/outbox.ts";
import type { GroupRead } from "../../log/groups/group-reads.ts";
import { waitingMarks } from "../rollups/rollup-marks.ts";

interface StagePosition {
  readonly name: string;
  /** Waiting records. */
  readonly lag: number;
  /** Age of the oldest waiting record. */
  readonly age_sec: number;
}
export interface Positions {
  /** When the log was read. */
  readonly at: UnixMs;
  readonly stages: readonly StagePosition[];
}

/**
 * Sinks from whose tables no figure is read: copies of records, and tables whose declaration
 * excludes them.
 */
const BESIDE: ReadonlySet<string> = new Set(
  pipeline.nodes.flatMap((node) =>
    node.is === "sink" && (!writesRows(node) || node.into.isBesideFigures === true) ? [node.name] : [],
  ),
);
const ASKED_AGAIN_MS = 5_000;
/** A screen waits two seconds for its figures, and may be the first reader after a quiet time. */
const PATIENCE_MS = 1_000;

export interface PositionReads {
  /**
   * Returns positions that are at most 5 s old. Older ones are returned only while the log does not
   * answer within a second.
   */
  readonly latest: () => Promise<Positions | undefined>;
  /**
   * Returns the moment up to which arrivals are in the figures; undefined until the log was read
   * once.
   */
  readonly asOf: () => Promise<UnixMs | undefined>;
}

/**
 * Reads the log once at a time, for all callers together. The last positions stay while the log is
 * unreachable, and age. `pool` must be allowed to read the rollup marks.
 */
export const openPositions = (pool: Pool, groups: () => Promise<readonly GroupRead[]>): PositionReads => {
  let known: Positions | undefined;
  let asking: { readonly since: number; readonly answer: Promise<void> } | undefined;
  const ask = async (): Promise<void> => {
    const at = Date.now();
    const found = await groups().catch(() => undefined);
    if (found !== undefined) known = { at, stages: stagesOf(found) };
    asking = undefined;
  };
  const latest = async (): Promise<Positions | undefined> => {
    if (known !== undefined && Date.now() - known.at <= ASKED_AGAIN_MS) return known;
    asking ??= { since: performance.now(), answer: ask() };
    // With an old answer at hand no reader waits again for a log that has been silent for so long.
    const waitedMs = known === undefined ? 0 : performance.now() - asking.since;
    const leftMs = PATIENCE_MS - waitedMs;
    if (leftMs > 0) await within(leftMs, asking.answer, "the log does not answer").catch(() => undefined);
    return known;
  };
  return {
    latest,
    asOf: async () => {
      const [positions, marks] = await Promise.all([latest(), waitingMarks(pool)]);
      return positions === undefined ? undefined : asOfFrom(positions, marks, Date.now());
    },
  };
};

/** One row for each stage and sink; stages of one group have the same lag. */
const stagesOf = (groups: readonly GroupRead[]): readonly StagePosition[] =>
  groups.flatMap(({ nodes, lag, seconds }) => nodes.map((name) => ({ name, lag, age_sec: Math.round(seconds) })));

/**
 * Returns the moment before which everything is stored: the oldest record that a stage or sink of
 * figures has yet to read, or the oldest mark whose minute is not computed yet, whichever is
 * earlier.
 */
export const asOfFrom = ({ at, stages }: Positions, marks: Backlog, now: UnixMs): UnixMs => {
  const ages = stages
    .filter(({ name, lag }) => lag > 0 && !BESIDE.has(name))
    .map(({ age_sec }) => at - age_sec * 1_000);
  return Math.min(at, ...ages, ...(marks.count > 0 ? [now - Math.ceil(marks.seconds * 1_000)] : []));
};

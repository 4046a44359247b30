// Reads how far the pipeline has stored the log; `as_of` of every figure follows from it.
import type { Pool } from "pg";
import { within } from "../../../infra/runtime/timing/within.ts";
import { type UnixMs, writesRows } from "../../../stream/flow.ts";
import { pipeline } from "../../../topology.ts";
import type { Backlog } from "../../base/outbox/outbox.ts";
import type { GroupRead } from "../../log/groups/group-reads.ts";
import { waitingMarks } from "../rollups/rollup-marks.ts";

export interface StagePosition {
  readonly name: string;
  /** Records that wait. */
  readonly lag: number;
  /** Of the oldest one. */
  readonly age_sec: number;
}
export interface Positions {
  /** When the log was asked. */
  readonly at: UnixMs;
  readonly stages: readonly StagePosition[];
}

/** Sinks of what no figure is read from: copies of records, and tables that say so. */
const BESIDE: ReadonlySet<string> = new Set(
  pipeline.nodes.flatMap((node) =>
    node.is === "sink" && (!writesRows(node) || node.into.isBesideFigures === true) ? [node.name] : [],
  ),
);
const ASKED_AGAIN_MS = 5_000;
/** A screen waits two seconds for its figures, and may be the first that asks. */
const PATIENCE_MS = 1_000;

export interface PositionReads {
  /** The newest answer of the log, asked for again behind it when it is older than 5 s. */
  readonly latest: () => Promise<Positions | undefined>;
  /** Up to when what came is in the figures; undefined while the log has never answered. */
  readonly asOf: () => Promise<UnixMs | undefined>;
}

/**
 * One question to the log at a time, shared by all who ask. What was known stays while the log is
 * away, and grows old. `pool` may look at the marks of rollups.
 */
export const openPositions = (pool: Pool, groups: () => Promise<readonly GroupRead[]>): PositionReads => {
  let known: Positions | undefined;
  let asking: Promise<void> | undefined;
  const ask = async (): Promise<void> => {
    const at = Date.now();
    const found = await groups().catch(() => undefined);
    if (found !== undefined) known = { at, stages: stagesOf(found) };
    asking = undefined;
  };
  const latest = async (): Promise<Positions | undefined> => {
    if (known === undefined || Date.now() - known.at > ASKED_AGAIN_MS) asking ??= ask();
    if (known === undefined && asking !== undefined)
      await within(PATIENCE_MS, asking, "the log does not answer").catch(() => undefined);
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

/** One a stage or sink: those that share a group wait together. */
const stagesOf = (groups: readonly GroupRead[]): readonly StagePosition[] =>
  groups.flatMap(({ nodes, lag, seconds }) => nodes.map((name) => ({ name, lag, age_sec: Math.round(seconds) })));

/**
 * The moment before which all is stored: before the oldest record that a stage or sink of figures
 * still has to read, and before the oldest mark whose minute is not computed again yet.
 */
export const asOfFrom = ({ at, stages }: Positions, marks: Backlog, now: UnixMs): UnixMs => {
  const ages = stages
    .filter(({ name, lag }) => lag > 0 && !BESIDE.has(name))
    .map(({ age_sec }) => at - age_sec * 1_000);
  return Math.min(at, ...ages, ...(marks.count > 0 ? [now - Math.ceil(marks.seconds * 1_000)] : []));
};

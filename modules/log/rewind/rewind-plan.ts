// Computes where a rewind takes each partition of a group: never above the committed offset. Pure.
import type { UnixMs } from "../../../stream/flow.ts";

/** The target. A time means the first record that the broker appended at or after it. */
export type RewindTo =
  | { readonly kind: "earliest" }
  | { readonly kind: "offset"; readonly offset: number }
  | { readonly kind: "time"; readonly at: UnixMs };

/** The broker's state of one partition. */
export interface PartitionFound {
  readonly partition: number;
  /** Null: the group has committed nothing. */
  readonly committed: number | null;
  /** The first offset that the log still holds. */
  readonly low: number;
  /**
   * The first offset appended at or after the time; the high watermark when nothing is newer, which
   * may lie beyond what a lagging group has read.
   */
  readonly atTime: number | null;
  /** When the record at `low` was appended; null when that was not read, or there is no record. */
  readonly lowAt: UnixMs | null;
}

export interface PartitionPlan {
  readonly partition: number;
  readonly committed: number;
  readonly target: number;
  readonly low: number;
}

/** A part of the wanted window that retention has removed. */
export type Gap =
  | { readonly partition: number; readonly kind: "offsets"; readonly from: number; readonly until: number }
  | { readonly partition: number; readonly kind: "time"; readonly from: UnixMs; readonly until: UnixMs };

export interface RewindPlan {
  readonly topic: string;
  /** The target as the operator typed it. */
  readonly to: string;
  /**
   * Partitions that the group has committed. Those with `committed` = `target` stay where they are.
   */
  readonly partitions: readonly PartitionPlan[];
}

const wantedOf = (to: RewindTo, { low, atTime }: PartitionFound): number => {
  if (to.kind === "earliest") return low;
  if (to.kind === "offset") return to.offset;
  if (atTime === null) throw new Error("a time was asked for, and the offset by time is not known");
  return atTime;
};

/**
 * Returns min(committed, max(wanted, low)); null for a partition without a committed offset, which
 * the rewind skips.
 */
export const targetOf = (to: RewindTo, found: PartitionFound): number | null =>
  found.committed === null ? null : Math.min(found.committed, Math.max(wantedOf(to, found), found.low));

const gapOf = (to: RewindTo, { partition, low, lowAt }: PartitionFound): readonly Gap[] => {
  // A log that still begins at offset 0 has lost nothing.
  if (low === 0) return [];
  if (to.kind === "offset" && to.offset < low) return [{ partition, kind: "offsets", from: to.offset, until: low }];
  if (to.kind === "time" && lowAt !== null && to.at < lowAt)
    return [{ partition, kind: "time", from: to.at, until: lowAt }];
  return [];
};

/** Returns the targets, and the parts of the window that the log no longer holds. */
export const planOf = (
  asked: { readonly topic: string; readonly to: RewindTo; readonly text: string },
  found: readonly PartitionFound[],
): { readonly plan: RewindPlan; readonly gaps: readonly Gap[] } => {
  const known = found.filter(({ committed }) => committed !== null);
  const partitions = known.map((one) => ({
    partition: one.partition,
    committed: one.committed!,
    target: targetOf(asked.to, one)!,
    low: one.low,
  }));
  return {
    plan: { topic: asked.topic, to: asked.text, partitions },
    gaps: known.flatMap((one) => gapOf(asked.to, one)),
  };
};

/** The partitions that go back. */
export const movesOf = ({ partitions }: RewindPlan): readonly PartitionPlan[] =>
  partitions.filter(({ committed, target }) => target < committed);

/** The number of records that are read again. */
export const eventsOf = (plan: RewindPlan): number =>
  movesOf(plan).reduce((sum, { committed, target }) => sum + committed - target, 0);

/** The number of records that have been read again when the group stands at these offsets. */
export const caughtUp = (plan: RewindPlan, now: ReadonlyMap<number, number>): number =>
  movesOf(plan).reduce(
    (sum, { partition, committed, target }) =>
      sum + Math.min(committed, Math.max(target, now.get(partition) ?? target)) - target,
    0,
  );

/** Partitions that stand beyond their former committed offset, which law R10 forbids. */
export const forward = ({ partitions }: RewindPlan, now: ReadonlyMap<number, number>): readonly number[] =>
  partitions
    .filter(({ partition, committed }) => (now.get(partition) ?? committed) > committed)
    .map(({ partition }) => partition);

// Where a rewind takes each partition of a group: never above what the group has committed. Pure.
import type { UnixMs } from "../../../stream/flow.ts";

/** Where to. A time means: the first record that the broker appended at or after it. */
export type RewindTo =
  | { readonly kind: "earliest" }
  | { readonly kind: "offset"; readonly offset: number }
  | { readonly kind: "time"; readonly at: UnixMs };

/** What the broker says of one partition. */
export interface PartitionFound {
  readonly partition: number;
  /** Null: the group has committed nothing. */
  readonly committed: number | null;
  /** The first offset that the log still holds. */
  readonly low: number;
  /**
   * The first offset appended at or after the time; the high watermark where nothing is newer,
   * which may lie beyond what a lagging group has read.
   */
  readonly atTime: number | null;
  /** When the record at `low` was appended; null when it was not asked for, or there is none. */
  readonly lowAt: UnixMs | null;
}

export interface PartitionPlan {
  readonly partition: number;
  readonly committed: number;
  readonly target: number;
  readonly low: number;
}

/** What of the wanted window retention has removed. */
export type Gap =
  | { readonly partition: number; readonly kind: "offsets"; readonly from: number; readonly until: number }
  | { readonly partition: number; readonly kind: "time"; readonly from: UnixMs; readonly until: UnixMs };

export interface RewindPlan {
  readonly topic: string;
  /** As it was asked for. */
  readonly to: string;
  /**
   * Partitions that the group has committed; those of `committed` = `target` stay where they are.
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
 * min(committed, max(wanted, low)); null for a partition that was never committed, which is left
 * alone.
 */
export const targetOf = (to: RewindTo, found: PartitionFound): number | null =>
  found.committed === null ? null : Math.min(found.committed, Math.max(wantedOf(to, found), found.low));

const gapOf = (to: RewindTo, { partition, low, lowAt }: PartitionFound): readonly Gap[] => {
  // Where the log still begins with its first record nothing was ever removed.
  if (low === 0) return [];
  if (to.kind === "offset" && to.offset < low) return [{ partition, kind: "offsets", from: to.offset, until: low }];
  if (to.kind === "time" && lowAt !== null && to.at < lowAt)
    return [{ partition, kind: "time", from: to.at, until: lowAt }];
  return [];
};

/** The targets, and what of the window the log no longer holds. */
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

/** How many records are read again. */
export const eventsOf = (plan: RewindPlan): number =>
  movesOf(plan).reduce((sum, { committed, target }) => sum + committed - target, 0);

/** Of what is read again, how much was read again when the group stands at these offsets. */
export const caughtUp = (plan: RewindPlan, now: ReadonlyMap<number, number>): number =>
  movesOf(plan).reduce(
    (sum, { partition, committed, target }) =>
      sum + Math.min(committed, Math.max(target, now.get(partition) ?? target)) - target,
    0,
  );

/** Law R10: partitions that stand further than they had committed. */
export const forward = ({ partitions }: RewindPlan, now: ReadonlyMap<number, number>): readonly number[] =>
  partitions
    .filter(({ partition, committed }) => (now.get(partition) ?? committed) > committed)
    .map(({ partition }) => partition);

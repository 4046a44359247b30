// The port for what stages remember: values by key, outcomes by event, and the offset up to which
// each partition is remembered.
import type { Position } from "../flow.ts";

/**
 * The value of one key after one event. In durable memory, `version` counts the changes of a key.
 * Fast memory orders by offset and leaves `version` at 0.
 */
export interface Version {
  readonly eventId: string;
  /** The offset of the event's position, which is the same however stages are hosted. */
  readonly offset: number;
  readonly version: number;
  readonly value: Uint8Array;
}

/** A new version that is about to be stored. */
export interface Change extends Version {
  readonly key: string;
  readonly position: Position;
}

interface MemoryQuestion {
  readonly stage: string;
  readonly keys: readonly string[];
  readonly eventIds: readonly string[];
  /** The topic of the partition that the worker reads. */
  readonly topic: string;
  readonly partition: number;
}

export interface LoadedMemory {
  /** Versions by key, oldest first. Durable memory holds only the newest. */
  readonly versions: ReadonlyMap<string, readonly Version[]>;
  /** Recorded outcomes by event id. Empty in fast memory. */
  readonly outcomes: ReadonlyMap<string, Uint8Array>;
  /** The partitions on which the events of these outcomes were decided. */
  readonly partitions?: ReadonlyMap<string, number>;
  /**
   * The highest offset by key whose versions were deleted. Older events see less than they first
   * did. Empty in durable memory.
   */
  readonly truncated: ReadonlyMap<string, number>;
  /** The offset up to which the partition is remembered. Null if it never was. */
  readonly mark: number | null;
}

/** The changes that one stage made in one batch. */
export interface MemoryWrite {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
  /** The offset after the last message of the batch. */
  readonly mark: number;
  readonly changes: readonly Change[];
  /**
   * Durable only: every key that was read, with its version when loaded (0: none). If a version has
   * changed since, the decision rests on an old value.
   */
  readonly met: readonly { readonly key: string; readonly version: number }[];
  /**
   * Durable only: the outcome of each event. Rejects are left out, because they may succeed after a
   * correction.
   */
  readonly outcomes: readonly { readonly eventId: string; readonly position: Position; readonly bytes: Uint8Array }[];
  /**
   * Fast only: versions to delete because their key has too many. `before` is the highest offset
   * among them.
   */
  readonly forgets: readonly { readonly key: string; readonly eventIds: readonly string[]; readonly before: number }[];
}

/**
 * The storage of what stages remember. With the driver `durable`, an event sees the newest value,
 * and an event decided before gets its outcome again. With `fast`, an event sees the newest version
 * older than itself. Storing the same changes twice has no further effect.
 */
export interface Memory {
  /** One bulk read of a consistent snapshot. */
  readonly load: (wanted: MemoryQuestion) => Promise<LoadedMemory>;
  /**
   * Stores all of the batch or nothing. Durable memory returns `moved` and stores nothing when,
   * since the load, an outcome of the batch has appeared or the version of a key has changed; the
   * runner then loads and folds again. Fast memory keeps the first version it received from each
   * event. It returns `lost` and keeps its mark if it was emptied since this driver loaded that
   * partition; then memory before this batch must be rebuilt.
   */
  readonly remember: (batch: readonly MemoryWrite[]) => Promise<"remembered" | "moved" | "lost">;
}

export type Memories = Readonly<Record<"fast" | "durable", Memory>>;

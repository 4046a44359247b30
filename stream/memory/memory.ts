// The port of what stages remember: values by key, outcomes by event, and how far a partition was
// remembered.
import type { Position } from "../flow.ts";

/**
 * One value of one key, as an event left it. `version` counts the changes of a key in durable
 * memory; fast memory orders by offset and leaves it 0.
 */
export interface Version {
  readonly eventId: string;
  /** Of the event's position, which is the same however stages are hosted. */
  readonly offset: number;
  readonly version: number;
  readonly value: Uint8Array;
}

/** A new version on its way into memory. */
export interface Change extends Version {
  readonly key: string;
  readonly position: Position;
}

interface MemoryQuestion {
  readonly stage: string;
  readonly keys: readonly string[];
  readonly eventIds: readonly string[];
  /** The partition that the worker reads. */
  readonly topic: string;
  readonly partition: number;
}

export interface LoadedMemory {
  /** By key, oldest first. Durable memory keeps the newest only. */
  readonly versions: ReadonlyMap<string, readonly Version[]>;
  /** By event id; empty in fast memory. */
  readonly outcomes: ReadonlyMap<string, Uint8Array>;
  /**
   * By key, the highest offset of which versions were let go: older events meet less than they once
   * did. Empty in durable memory.
   */
  readonly truncated: ReadonlyMap<string, number>;
  /** The offset up to which the partition was remembered; null: never. */
  readonly mark: number | null;
}

/** What one stage made of one batch. */
export interface MemoryWrite {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
  /** The offset after the batch. */
  readonly mark: number;
  readonly changes: readonly Change[];
  /**
   * Durable: every key that was met and its version when it was loaded (0: none). One that has
   * moved in between was decided on otherwise.
   */
  readonly met: readonly { readonly key: string; readonly version: number }[];
  /** Durable: what became of each event, but for rejects, which may succeed after a correction. */
  readonly outcomes: readonly { readonly eventId: string; readonly position: Position; readonly bytes: Uint8Array }[];
  /**
   * Fast: versions beyond the bound of a key, to be let go; `before` is the highest offset among
   * them.
   */
  readonly forgets: readonly { readonly key: string; readonly eventIds: readonly string[]; readonly before: number }[];
}

/**
 * A driver is `durable` (an event meets the newest value; an event decided before is answered with
 * its outcome) or `fast` (an event meets the newest version older than itself). Remembering the
 * same twice is remembering it once.
 */
export interface Memory {
  /** One bulk read, of one moment. */
  readonly load: (wanted: MemoryQuestion) => Promise<LoadedMemory>;
  /**
   * All or nothing. Durable memory answers `moved`, and has remembered nothing, when an outcome of
   * the batch has appeared since it was loaded or a key that it met is at another version: load and
   * fold again. Fast memory keeps the first version that it was given of an event; it answers
   * `lost`, and its mark stays where it is, when it was emptied since this driver loaded for that
   * partition: what lies before the batch must be learnt again.
   */
  readonly remember: (batch: readonly MemoryWrite[]) => Promise<"remembered" | "moved" | "lost">;
}

export type Memories = Readonly<Record<"fast" | "durable", Memory>>;

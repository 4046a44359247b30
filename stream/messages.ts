// Messages as a log stores them, and the controls that a consumer gives the runner with each batch.
import type { Position, UnixMs } from "./flow.ts";

/** A message from the log or from any other source. */
export interface InputMessage {
  readonly offset: number;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, Buffer | string | undefined>>;
  /** The time when the log appended the message. */
  readonly appendedAt: UnixMs;
}
export interface PlacedMessage extends InputMessage {
  readonly topic: string;
  readonly partition: number;
}
export interface InputBatch {
  readonly topic: string;
  readonly partition: number;
  /** At least one message, ordered by offset. */
  readonly messages: readonly InputMessage[];
}
/** A batch as a log delivers it. */
export interface FetchedBatch extends InputBatch {
  /** The offset after the newest record of the partition when the batch was fetched. */
  readonly highWatermark: number;
}
/** A message to be written. */
export interface OutputMessage {
  readonly topic: string;
  readonly key: Buffer | string | null;
  readonly value: Buffer | null;
  readonly headers?: Readonly<Record<string, string | Buffer>>;
}
/** The controls for one batch, supplied by the consumer that read it. */
export interface Control {
  /**
   * Commits the offset where reading continues. Never moves it back: a commit below an earlier one
   * succeeds without effect.
   */
  readonly commit: (nextOffset: number) => Promise<void>;
  /**
   * Call this every few thousand messages. A member that stays silent longer than its session loses
   * its membership.
   */
  readonly heartbeat: () => Promise<void>;
  /**
   * False once another member may own the partition. Check it before every durable step. If it is
   * false, leave the batch without committing.
   */
  readonly isCurrent: () => boolean;
  /**
   * Continues reading at this offset, or at the start of the log if that is later. The current
   * batch stays uncommitted.
   */
  readonly seek: (offset: number) => void;
  /**
   * Starts the next batch of the partition at this offset even if earlier messages are not
   * committed. A member that takes over reads those again.
   */
  readonly readOn: (offset: number) => void;
  /**
   * Pauses this partition for the given time. New messages wait in the log, where they use no
   * memory.
   */
  readonly rest: (ms: number) => void;
  /** How long the group waits for a sign of this member. Absent where there is no group. */
  readonly sessionMs?: number;
  /** True once the consumer is to end: work under way is finished, and no other is begun. */
  readonly isStopping?: () => boolean;
}
/**
 * Resolves when all in-sync replicas have acknowledged every message. Keeps the order of each topic
 * and key.
 */
export type Produce = (messages: readonly OutputMessage[]) => Promise<void>;
export type ProcessBatch = (batch: InputBatch, control: Control) => Promise<void>;

/**
 * The content of a dead letter: the rejected bytes as they arrived, and where and why they were
 * rejected.
 */
export interface Letter {
  readonly to: string;
  readonly stage: string;
  readonly code: string;
  readonly message: string;
  readonly position: Position;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: InputMessage["headers"];
}

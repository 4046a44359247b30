// Messages of a log as they are read and written, and what a consumer gives the runner of a batch.
import type { Position, UnixMs } from "./flow.ts";

/** A message as it is read, wherever it lies. */
export interface InputMessage {
  readonly offset: number;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, Buffer | string | undefined>>;
  /** When the log appended it. */
  readonly appendedAt: UnixMs;
}
export interface PlacedMessage extends InputMessage {
  readonly topic: string;
  readonly partition: number;
}
export interface InputBatch {
  readonly topic: string;
  readonly partition: number;
  /** At least one, in the order of their offsets. */
  readonly messages: readonly InputMessage[];
}
/** As a log hands it over. */
export interface FetchedBatch extends InputBatch {
  /** The offset after the newest record of the partition when the batch was fetched. */
  readonly highWatermark: number;
}
/** A message as it is written. */
export interface OutputMessage {
  readonly topic: string;
  readonly key: Buffer | string | null;
  readonly value: Buffer | null;
  readonly headers?: Readonly<Record<string, string | Buffer>>;
}
/** Of one batch, from the consumer that read it. */
export interface Control {
  /**
   * Commits the offset to go on from. Never moves it back: what lies below an earlier commit is
   * answered without doing anything.
   */
  readonly commit: (nextOffset: number) => Promise<void>;
  /**
   * To be called every few thousand messages: a silence longer than the session costs the
   * membership.
   */
  readonly heartbeat: () => Promise<void>;
  /**
   * False once another member may own the partition. Ask before every durable step; when false,
   * leave the batch without committing.
   */
  readonly isCurrent: () => boolean;
  /**
   * The partition is read on from this offset, or from the start of the log when that is later; the
   * batch at hand is left uncommitted.
   */
  readonly seek: (offset: number) => void;
  /**
   * The next batch of the partition begins here, though what lies before it may not be committed: a
   * member that takes over reads that again.
   */
  readonly readOn: (offset: number) => void;
  /**
   * Hands over nothing more of this partition for so long: what comes meanwhile waits in the log,
   * where it costs no memory.
   */
  readonly rest: (ms: number) => void;
}
/**
 * Resolves when every message is acknowledged by all replicas that are in sync; keeps the order of
 * each topic and key.
 */
export type Produce = (messages: readonly OutputMessage[]) => Promise<void>;
export type ProcessBatch = (batch: InputBatch, control: Control) => Promise<void>;

/**
 * What a dead letter holds and says: the bytes as they came, and where and why they were refused.
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

// What a runner needs from outside: the log, retries and counters. infra/kafka/kafka.ts implements
// it, and so does the in-memory log of stream/testing/drive.ts.

import type { DeadLetterRoute, Position, Read, Recorded, UnixMs, Write } from "./flow.ts";
import type { Memories } from "./memory/memory.ts";
import type { FetchedBatch, InputBatch, Letter, OutputMessage, Produce } from "./messages.ts";
import type { Wire } from "./wire.ts";

/** Counts of one stage. events = emitting + recalled + the sums of dropped and rejected. */
export interface Counts {
  readonly stage: string;
  readonly events: number;
  /** Events that emitted, however many outputs each had. */
  readonly emitting: number;
  /** Outputs of all emits, including those passed to the next stage of the chain. */
  readonly outputs: number;
  readonly dropped: ReadonlyMap<string, number>;
  readonly rejected: ReadonlyMap<string, number>;
  /** Events decided before, whose recorded outcome was sent again. */
  readonly recalled: number;
  /**
   * Events that may have seen less than they first did, because versions they need were deleted.
   */
  readonly truncated: number;
}
/** The result of one batch, counted once it is committed. */
export interface BatchCounts {
  readonly chain: string;
  readonly topic: string;
  readonly partition: number;
  readonly messages: number;
  /** How many records could not be read, by the code of their letters. */
  readonly unreadable: ReadonlyMap<string, number>;
  readonly stages: readonly Counts[];
  readonly seconds: number;
}
/**
 * One write of a sink, counted once its offsets are committed. `receivedAt` lists the receipt times
 * of its events, which give their age.
 */
export interface WriteCounts {
  readonly sink: string;
  readonly table: string;
  readonly rows: number;
  /**
   * How many events went to the dead letters, by the code of their letters. Records that no sink of
   * the group could read count for its first.
   */
  readonly rejected: ReadonlyMap<string, number>;
  /** Events that must not be stored any more, e.g. after an erasure. */
  readonly withheld?: number;
  readonly seconds: number;
  readonly receivedAt: readonly UnixMs[];
}
/**
 * Repeats a step while its errors are transient, with jitter, and calls `between` before each
 * repeat. Metrics count the step under `name`. `isCuttable` says that the batch may come in smaller
 * pieces: then a step that its time limit has ended is not repeated, and throws SlowBatch.
 */
export type Retry = <T>(
  name: RetriedStep,
  step: () => Promise<T>,
  between: () => Promise<void>,
  isCuttable?: boolean,
) => Promise<T>;
export type RetriedStep = "record" | "learn" | "load" | "remember" | "produce" | "write" | "commit";
type Report = (event: string, fields: Readonly<Record<string, unknown>>) => void;
/** Logs what happens to the process; never call it for each event. `error` alerts an operator. */
interface RunnerLog {
  readonly info: Report;
  readonly warn: Report;
  readonly error: Report;
}
/** What runners of stages and runners of sinks both need. */
export interface LogPorts {
  readonly wire: Wire;
  readonly produce: Produce;
  readonly deadLetters: DeadLetterRoute;
  readonly deadLetter: (letter: Letter) => OutputMessage;
  readonly retry: Retry;
  /**
   * Counts one more stop of a chain or group of sinks at this message and returns the total, which
   * survives a restart.
   */
  readonly stops: (reader: string, at: Position) => Promise<number>;
  readonly log: RunnerLog;
}
export interface RunnerPorts extends LogPorts {
  readonly memories: Memories;
  /**
   * Reads messages that the log no longer holds from the store that still keeps them: those between
   * two offsets, in order and under their original offsets.
   * Batches may be missing, and the reader may return more than was asked for.
   */
  readonly past?: PastReader;
  /**
   * Reads all that a topic of the log holds now, or ranges of it, the batches of a partition in
   * order. Heartbeats go out meanwhile.
   */
  readonly whole?: WholeReader;
  /** The offsets that the group of the chain has committed, by partition. */
  readonly committed?: (topic: string) => Promise<ReadonlyMap<number, number>>;
  readonly read: Read;
  readonly count: (counts: BatchCounts) => void;
}

export type WholeReader = (
  topic: string,
  onBatch: (batch: InputBatch) => Promise<void>,
  heartbeat: () => Promise<void>,
  ranges?: OffsetRanges,
) => Promise<void>;
/** By partition; others are not read. */
export type OffsetRanges = ReadonlyMap<number, { readonly from: number; readonly until: number }>;
export type PastReader = (topic: string, partition: number, from: number, until: number) => AsyncIterable<PastBatch>;
/**
 * The messages between the offsets `from` and `until`. Messages that must not return, e.g. erased
 * ones, are missing, so the batch may be empty.
 */
export interface PastBatch extends InputBatch {
  readonly from: number;
  readonly until: number;
}

export interface CopyPorts extends Pick<LogPorts, "retry" | "stops" | "log"> {
  /**
   * Takes the records of a batch. `until` is the end of what waited in the log when the round
   * began. Returns `stored`, the offset before which the partition is safely stored, and `next`,
   * where reading continues: behind the records that are taken but not stored yet, or further back.
   */
  readonly keep: (
    batch: FetchedBatch,
    until: number,
    heartbeat: () => Promise<void>,
  ) => Promise<{ readonly stored: number; readonly next: number }>;
  readonly countWrite: (counts: WriteCounts) => void;
}

/**
 * Opens one transaction, or one insert for each call of `write`, limited to the tenants whose rows
 * it may touch. sinks/stores implements it for each database.
 */
interface Store {
  readonly within: (
    batch: { readonly tenants: readonly number[]; readonly token: string },
    work: (write: Write) => Promise<void>,
  ) => Promise<void>;
}
/**
 * How to react to an error. transient: a retry may succeed. data: this input can never be stored or
 * read, however often it is tried. fatal: anything else; the worker stops and nothing is set aside,
 * so an unknown error never counts as bad data.
 */
export type Verdict = "transient" | "data" | "fatal";
export interface SinkPorts extends LogPorts {
  readonly classify: (error: unknown) => Verdict;
  readonly stores: Readonly<Record<"clickhouse" | "postgres" | "redis", Store>>;
  /**
   * An id of this process, part of every insert token. ClickHouse drops an insert whose token it
   * has seen, so a token that outlived the process would drop the rows that a rewind restores.
   */
  readonly run: string;
  /**
   * Loads a filter for events that must not be written any more, once a write. Undefined means that
   * every event may be written. Rejects with a transient error while the answer is unknown.
   */
  readonly withholds?: () => Promise<WithholdFilter | undefined>;
  readonly countWrite: (counts: WriteCounts) => void;
}
/** `read` is the event's position in the topic of the sink. */
export type WithholdFilter = (event: Recorded<any>, read: Position) => boolean;

// What a runner asks of the world: the log, retries, counters. infra/kafka/kafka.ts satisfies it,
// and so does the log in memory of stream/testing/drive.ts.

import type { DeadLetterRoute, Position, Read, Recorded, UnixMs, Write } from "./flow.ts";
import type { Memories } from "./memory/memory.ts";
import type { FetchedBatch, InputBatch, Letter, OutputMessage, Produce } from "./messages.ts";
import type { Wire } from "./wire.ts";

/** events = emitting + recalled + the sums of dropped and rejected. */
export interface Counts {
  readonly stage: string;
  readonly events: number;
  /** Events that ended in emit, whatever the number of outputs. */
  readonly emitting: number;
  /** Outputs of emits, those to the next stage hosted here included. */
  readonly outputs: number;
  readonly dropped: ReadonlyMap<string, number>;
  readonly rejected: ReadonlyMap<string, number>;
  /** Events decided before and answered with their recorded outcome. */
  readonly recalled: number;
  /** Events that met less than was once remembered, for they are older than what is kept. */
  readonly truncated: number;
}
/** What became of one batch, counted once it is committed. */
export interface BatchCounts {
  readonly chain: string;
  readonly topic: string;
  readonly partition: number;
  readonly messages: number;
  readonly unreadable: number;
  readonly stages: readonly Counts[];
  readonly seconds: number;
}
/**
 * One write of a sink, counted once its offsets are committed; `receivedAt` of its events says how
 * old they are.
 */
export interface WriteCounts {
  readonly sink: string;
  readonly table: string;
  readonly rows: number;
  readonly rejected: number;
  /** Events that may not be stored any more. */
  readonly withheld?: number;
  readonly seconds: number;
  readonly receivedAt: readonly UnixMs[];
}
/**
 * Tries one step again while its errors are transient, with jitter; `between` is called before each
 * further try. `name` is what the step is counted as.
 */
export type Retry = <T>(name: RetriedStep, step: () => Promise<T>, between: () => Promise<void>) => Promise<T>;
export type RetriedStep = "record" | "learn" | "load" | "remember" | "produce" | "write" | "commit";
type Report = (event: string, fields: Readonly<Record<string, unknown>>) => void;
/** Events of the process, never once an event of the stream; `error` asks for an operator. */
interface RunnerLog {
  readonly info: Report;
  readonly warn: Report;
  readonly error: Report;
}
/** What runners of stages and of sinks have in common. */
export interface LogPorts {
  readonly wire: Wire;
  readonly produce: Produce;
  readonly deadLetters: DeadLetterRoute;
  readonly deadLetter: (letter: Letter) => OutputMessage;
  readonly retry: Retry;
  /**
   * How often a chain or a group of sinks has now stopped at this message, this time included: it
   * outlives the process.
   */
  readonly stops: (reader: string, at: Position) => Promise<number>;
  readonly log: RunnerLog;
}
export interface RunnerPorts extends LogPorts {
  readonly memories: Memories;
  /**
   * What the log no longer holds of a partition, from one offset up to another, where it is kept
   * elsewhere: in order, under the offsets that it had.
   * Batches may be missing, and more may be handed over than was asked for.
   */
  readonly past?: PastReader;
  readonly read: Read;
  readonly count: (counts: BatchCounts) => void;
}

export type PastReader = (topic: string, partition: number, from: number, until: number) => AsyncIterable<PastBatch>;
/**
 * The offsets from `from` up to `until`, without what may not come back: of those possibly none is
 * left.
 */
export interface PastBatch extends InputBatch {
  readonly from: number;
  readonly until: number;
}

export interface CopyPorts extends Pick<LogPorts, "retry" | "stops" | "log"> {
  /**
   * Takes the records of a batch; `until` is where what waited in the log ends. Answers the offset
   * before which all of the partition is stored for good now, and where it is to be read on: behind
   * what is taken and not stored yet, or further back.
   */
  readonly keep: (
    batch: FetchedBatch,
    until: number,
    heartbeat: () => Promise<void>,
  ) => Promise<{ readonly stored: number; readonly next: number }>;
  readonly countWrite: (counts: WriteCounts) => void;
}

/**
 * One transaction or one insert a call of `write`, with the tenants whose rows it may touch;
 * sinks/stores has one for each store.
 */
interface Store {
  readonly within: (
    batch: { readonly tenants: readonly number[]; readonly token: string },
    work: (write: Write) => Promise<void>,
  ) => Promise<void>;
}
/**
 * What an error asks for. transient: the step may succeed if it is tried again. data: what was
 * given cannot be stored or read, however often it is tried. fatal: everything else; the worker
 * stops and nothing is set aside, so an unknown error is never taken for bad data.
 */
export type Verdict = "transient" | "data" | "fatal";
export interface SinkPorts extends LogPorts {
  readonly classify: (error: unknown) => Verdict;
  readonly stores: Readonly<Record<"clickhouse" | "postgres" | "redis", Store>>;
  /**
   * Of this process. A token is a memory of inserts: one that outlived the process would swallow
   * the very rows that a rewind is to bring back.
   */
  readonly run: string;
  /**
   * What may not be written any more, asked once a write: undefined when everything may. Rejects
   * with a transient error while that is unknown.
   */
  readonly withholds?: () => Promise<WithholdFilter | undefined>;
  readonly countWrite: (counts: WriteCounts) => void;
}
/** `read` is where the event stands in the topic of the sink. */
export type WithholdFilter = (event: Recorded<any>, read: Position) => boolean;

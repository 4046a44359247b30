// The counts behind all metrics: their one interface, and the values that its callers report.
import type { UnixMs } from "../../stream/flow.ts";
import type { BatchCounts, WriteCounts } from "../../stream/ports.ts";

export interface RequestCounts {
  /** The name of the edge or route, never its path. */
  readonly edge: string;
  readonly status: number;
  readonly seconds: number;
  readonly accepted: number;
  /** Refused events by code; the codes are a closed set. */
  readonly refused: ReadonlyMap<string, number>;
}

/** One run of repeated work. */
interface RunCounts {
  readonly schedule: string;
  readonly done: number;
  readonly isFailed: boolean;
  readonly seconds: number;
}

/** Dead letters that have neither come through nor been given up. */
interface OpenLetters {
  readonly kind: string;
  readonly state: string;
  readonly count: number;
  /** The time since the oldest of them first failed. */
  readonly seconds: number;
}

/** Refunds, decisions or lines that wait for their sale or for a person. */
interface WaitingMoney {
  readonly kind: string;
  readonly count: number;
  readonly seconds: number;
}

/** Events that an edge has accepted and that are not in the log. */
interface WaitingCounts {
  /** Events on the way to the log that are not acknowledged to a sender yet. */
  readonly inFlight: number;
  readonly spooled: number;
  readonly lastResort: number;
  readonly isFailover: boolean;
}

export interface PartitionLag {
  readonly topic: string;
  readonly partition: number;
  readonly lag: number;
  /** Age of the oldest waiting record; 0 if none waits. */
  readonly seconds: number;
}

interface AccountBalance {
  readonly account: string;
  readonly currency: string;
  /** An amount in units of the currency. */
  readonly amount: number;
}

/** One metric as docs/metrics.md lists it. Every metric also has the label `app`. */
interface MetricEntry {
  readonly name: string;
  readonly type: string;
  readonly labels: readonly string[];
  readonly help: string;
}

export interface Metrics {
  readonly countBatch: (counts: BatchCounts) => void;
  readonly countWrite: (counts: WriteCounts, now: UnixMs) => void;
  readonly countRequest: (counts: RequestCounts) => void;
  readonly countRetry: (step: string) => void;
  /** Hints that Redis had no room for: members of sets, answers, and dropped keys. */
  readonly countShed: (what: string, count: number) => void;
  /**
   * Replaces all values of a group, so that a partition which moved away leaves no stale value.
   */
  readonly setLag: (group: string, partitions: readonly PartitionLag[]) => void;
  readonly countRun: (counts: RunCounts) => void;
  /** The work that waits for a schedule. */
  readonly setBacklog: (schedule: string, waiting: { readonly count: number; readonly seconds: number }) => void;
  readonly setWaiting: (counts: WaitingCounts) => void;
  /** All letters that are open now; kinds and states that are not named have none. */
  readonly setOpenLetters: (letters: readonly OpenLetters[]) => void;
  readonly setWaitingMoney: (kinds: readonly WaitingMoney[]) => void;
  readonly setLedgerBalances: (balances: readonly AccountBalance[]) => void;
  /** The state of a store as its keeper sees it: 0 healthy, 1 failing, 2 restarting, 3 down. */
  readonly setProbe: (probe: string, level: number) => void;
  readonly countRestart: (probe: string) => void;
  /** Null while the log cannot be asked. */
  readonly setSyncLag: (seconds: number | null) => void;
  /** Every metric in the order of names, including those of Node's process. */
  readonly list: () => readonly MetricEntry[];
  /** The answer to /metrics. */
  readonly text: () => Promise<string>;
  readonly contentType: string;
}

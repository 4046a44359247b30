// What is counted: the one interface of all metrics, and what its callers report.
import type { UnixMs } from "../../stream/flow.ts";
import type { BatchCounts, WriteCounts } from "../../stream/ports.ts";

export interface RequestCounts {
  /** The name of the edge or route, never its path. */
  readonly edge: string;
  readonly status: number;
  readonly seconds: number;
  readonly accepted: number;
  /** By code; codes are a closed set. */
  readonly refused: ReadonlyMap<string, number>;
}

/** One run of work that is done again and again. */
interface RunCounts {
  readonly schedule: string;
  readonly done: number;
  readonly isFailed: boolean;
  readonly seconds: number;
}

/** Dead letters that were neither brought through nor given up yet. */
interface OpenLetters {
  readonly kind: string;
  readonly state: string;
  readonly count: number;
  /** Since the oldest of them failed first. */
  readonly seconds: number;
}

/** Refunds, decisions or lines that wait for their sale or for a person. */
interface WaitingMoney {
  readonly kind: string;
  readonly count: number;
  readonly seconds: number;
}

/** What an edge has taken and is not in the log. */
interface WaitingCounts {
  /** On its way there, not yet acknowledged to a sender. */
  readonly inFlight: number;
  readonly spooled: number;
  readonly lastResort: number;
  readonly isFailover: boolean;
}

export interface PartitionLag {
  readonly topic: string;
  readonly partition: number;
  readonly lag: number;
  /** Age of the oldest record that waits; 0 when none does. */
  readonly seconds: number;
}

interface AccountBalance {
  readonly account: string;
  readonly currency: string;
  /** In units of the currency. */
  readonly amount: number;
}

/** One metric as docs/metrics.md lists it. Every metric has the label `app` besides. */
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
  /** What Redis had no room for: members of sets, answers, and keys that were dropped. */
  readonly countShed: (what: string, count: number) => void;
  /**
   * Replaces all that was known of a group, so that a partition which moved away leaves no stale
   * value.
   */
  readonly setLag: (group: string, partitions: readonly PartitionLag[]) => void;
  readonly countRun: (counts: RunCounts) => void;
  /** What waits for a schedule. */
  readonly setBacklog: (schedule: string, waiting: { readonly count: number; readonly seconds: number }) => void;
  readonly setWaiting: (counts: WaitingCounts) => void;
  /** All that are open now; what is not named is none. */
  readonly setOpenLetters: (letters: readonly OpenLetters[]) => void;
  readonly setWaitingMoney: (kinds: readonly WaitingMoney[]) => void;
  readonly setLedgerBalances: (balances: readonly AccountBalance[]) => void;
  /** How a store is to its keeper: 0 healthy, 1 failing, 2 restarting, 3 down. */
  readonly setProbe: (probe: string, level: number) => void;
  readonly countRestart: (probe: string) => void;
  /** Null while the log cannot be asked. */
  readonly setSyncLag: (seconds: number | null) => void;
  /** Every metric that there is, those of Node's process too, in the order of their names. */
  readonly list: () => readonly MetricEntry[];
  /** The answer to /metrics. */
  readonly text: () => Promise<string>;
  readonly contentType: string;
}

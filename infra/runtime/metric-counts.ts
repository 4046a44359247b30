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
  /** Null: the spool could not be read. */
  readonly spooled: number | null;
  /** Null: object storage was not read yet. */
  readonly lastResort: number | null;
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

/** The label sets of counters and histograms that an app may report. */
export interface ExpectedSeries {
  /** The readers that may meet unreadable records, by the name that their letters bear. */
  readonly chains?: readonly string[];
  readonly stages?: readonly { readonly stage: string; readonly rejects: readonly string[] }[];
  readonly sinks?: readonly { readonly sink: string; readonly table: string }[];
  readonly steps?: readonly string[];
  readonly edges?: readonly string[];
  readonly schedules?: readonly string[];
  readonly probes?: readonly string[];
  readonly hints?: readonly string[];
}

/** What no mail server has taken, and how long the oldest of it waits. */
export interface WaitingMails {
  readonly kind: "mail" | "alert";
  readonly count: number;
  readonly seconds: number;
}

/** In every setter null means unknown: the figures are removed. */
export interface Metrics {
  /** Called at the start of an app: these series are there with 0, before anything happens. */
  readonly expect: (series: ExpectedSeries) => void;
  readonly countBatch: (counts: BatchCounts) => void;
  readonly countWrite: (counts: WriteCounts, now: UnixMs) => void;
  readonly countRequest: (counts: RequestCounts) => void;
  readonly countRetry: (step: string) => void;
  /** Hints that Redis had no room for: members of sets, answers, and dropped keys. */
  readonly countShed: (what: string, count: number) => void;
  /**
   * Replaces all values of a group, so that a partition which moved away leaves no stale value.
   */
  readonly setLag: (group: string, partitions: readonly PartitionLag[] | null) => void;
  readonly countRun: (counts: RunCounts) => void;
  /** The work that waits for a schedule. */
  readonly setBacklog: (schedule: string, waiting: { readonly count: number; readonly seconds: number } | null) => void;
  readonly setWaiting: (counts: WaitingCounts) => void;
  /** All letters that are open now. */
  readonly setOpenLetters: (letters: readonly OpenLetters[] | null) => void;
  readonly setWaitingMoney: (kinds: readonly WaitingMoney[] | null) => void;
  readonly setLedgerBalances: (balances: readonly AccountBalance[] | null) => void;
  /** The state of a store as its keeper sees it: 0 healthy, 1 failing, 2 restarting, 3 down. */
  readonly setProbe: (probe: string, level: number) => void;
  readonly countRestart: (probe: string) => void;
  /** Null while the log cannot be asked. */
  readonly setSyncLag: (seconds: number | null) => void;
  /** Whether the source of a named figure can be read. */
  readonly setKnown: (figure: string, isKnown: boolean) => void;
  /** Every sink, and whether it gets events that were written before. */
  readonly setReadAgain: (sinks: ReadonlyMap<string, boolean> | null) => void;
  readonly setUnbalanced: (sums: readonly Pick<AccountBalance, "currency" | "amount">[] | null) => void;
  readonly setSilentClients: (count: number | null) => void;
  readonly setPullAge: (seconds: number | null) => void;
  readonly setMails: (kinds: readonly WaitingMails[] | null) => void;
  /** The room of the disk on which a named folder lies. */
  readonly setDisk: (place: string, room: { readonly free: number; readonly size: number } | null) => void;
  /** When the certificate in use ends; null: there is none, or it cannot be read. */
  readonly setExpiry: (notAfter: UnixMs | null) => void;
  /** Every metric in the order of names, including those of Node's process. */
  readonly list: () => readonly MetricEntry[];
  /** The answer to /metrics. */
  readonly text: () => Promise<string>;
  readonly contentType: string;
}

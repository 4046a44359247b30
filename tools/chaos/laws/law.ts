// What a law of the suite is: an id, a sentence, and a check that looks at the data alone.
import type { Generator } from "../load/generator.ts";
import type { Journal } from "../load/journal.ts";
import type { LogPicture } from "../log-picture.ts";
import type { Target } from "../target.ts";
import type { WatchResult } from "../watcher.ts";

/**
 * `open`: nothing of this cycle could prove or break it; `missing`: the part it speaks of does not
 * exist yet; `elsewhere`: a test of its own proves it.
 */
export type Verdict = "kept" | "broken" | "open" | "missing" | "elsewhere";
export interface Finding {
  readonly verdict: Verdict;
  /** One line: what was counted, or the first things that are wrong. */
  readonly evidence: string;
}
/** What the laws look at, gathered at quiescence. */
export interface Evidence {
  readonly target: Target;
  readonly generator: Generator;
  readonly journal: Journal;
  readonly log: LogPicture;
  /** Reads on in the log: what `log` shows grows. */
  readonly readOn: () => Promise<unknown>;
  /** Sender ids of this session begin with it, those of this cycle with the other. */
  readonly session: string;
  readonly cycle: string;
  readonly watched: WatchResult;
  /** No other sender uses this installation. */
  readonly isOurs: boolean;
  /**
   * What faults of this cycle found out by themselves, by law: the hash before and after a replay,
   * offsets of a rewind.
   */
  readonly findings: ReadonlyMap<string, readonly Finding[]>;
  /** How long quiescence took after the last heal, and what it waited for. */
  readonly quietMs: number;
  readonly events: readonly StoredEvent[];
}
export interface StoredEvent {
  readonly id: string;
  readonly event_id: string;
  readonly client_id: number;
  readonly rows: number;
  readonly t: string;
  readonly order_id: string | null;
  readonly credit_status: string;
  readonly partner_id: number | null;
  readonly fraud_band: string;
  readonly merged_into: string | null;
  readonly version: number;
  readonly value_minor: string | null;
}
export interface Law {
  readonly id: string;
  readonly says: string;
  readonly check: (evidence: Evidence) => Promise<Finding> | Finding;
}

export const kept = (evidence: string): Finding => ({ verdict: "kept", evidence });
export const open = (evidence: string): Finding => ({ verdict: "open", evidence });
const broken = (evidence: string): Finding => ({ verdict: "broken", evidence });
const SHOWN = 3;

/** Kept when the list of what is wrong is empty; else the first entries are shown. */
export const unless = (wrong: readonly string[], otherwise: string): Finding =>
  wrong.length === 0
    ? kept(otherwise)
    : broken(`${wrong.length}: ${wrong.slice(0, SHOWN).join("; ")}${wrong.length > SHOWN ? " ..." : ""}`);

/** A law that is listed and cannot be asked here: it must not be forgotten in silence. */
export const elsewhere = (id: string, says: string, where: string): Law => ({
  id,
  says,
  check: () => ({ verdict: "elsewhere", evidence: where }),
});
export const missing = (id: string, says: string, part: string): Law => ({
  id,
  says,
  check: () => ({ verdict: "missing", evidence: `not provable yet: ${part}` }),
});
/** A law of which a fault brings the proof: the worst of what it found. */
export const foundBy = (id: string, says: string, fault: string): Law => ({
  id,
  says,
  check: ({ findings }) => {
    const found = findings.get(id) ?? [];
    return found.find(({ verdict }) => verdict === "broken") ?? found.at(-1) ?? open(`no ${fault} in this cycle`);
  },
});

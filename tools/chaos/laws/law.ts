// The type of a law: an id, a sentence, and a check that only reads data.
import type { Generator } from "../load/generator.ts";
import type { Journal } from "../load/journal.ts";
import type { LogPicture } from "../log-picture.ts";
import type { Target } from "../target.ts";
import type { WatchResult } from "../watcher.ts";

/**
 * `open`: nothing in this cycle could prove or break the law; `missing`: its part of the product
 * does not exist yet; `elsewhere`: a test proves it.
 */
export type Verdict = "kept" | "broken" | "open" | "missing" | "elsewhere";
export interface Finding {
  readonly verdict: Verdict;
  /** One line: the counts, or the first errors. */
  readonly evidence: string;
}
/** The data that laws check, collected at quiescence. */
export interface Evidence {
  readonly target: Target;
  readonly generator: Generator;
  readonly journal: Journal;
  readonly log: LogPicture;
  /** Reads the log further; `log` grows by that. */
  readonly readOn: () => Promise<unknown>;
  /** Prefixes of sender ids: of this session, and of this cycle. */
  readonly session: string;
  readonly cycle: string;
  readonly watched: WatchResult;
  /** No other sender uses this installation. */
  readonly isOurs: boolean;
  /**
   * Findings of the faults of this cycle by law, for example the hash before and after a replay, or
   * the offsets of a rewind.
   */
  readonly findings: ReadonlyMap<string, readonly Finding[]>;
  /** Time from the last heal to quiescence. */
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

/** Kept if `wrong` is empty; else its first entries are the evidence. */
export const unless = (wrong: readonly string[], otherwise: string): Finding =>
  wrong.length === 0
    ? kept(otherwise)
    : broken(`${wrong.length}: ${wrong.slice(0, SHOWN).join("; ")}${wrong.length > SHOWN ? " ..." : ""}`);

/** A law that cannot be checked here; it is listed so that it is not forgotten. */
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
/** A law that only a fault can prove: the worst of its findings. */
export const foundBy = (id: string, says: string, fault: string): Law => ({
  id,
  says,
  check: ({ findings }) => {
    const found = findings.get(id) ?? [];
    return found.find(({ verdict }) => verdict === "broken") ?? found.at(-1) ?? open(`no ${fault} in this cycle`);
  },
});

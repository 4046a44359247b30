// A move of the log as it is asked for, and what it would do.
import type { UnixMs } from "../../../stream/flow.ts";
import type { ReprocessStage } from "../../money/reprocess/ports.ts";

export interface Reprocess {
  readonly move: "reprocess";
  /** Of receipt. */
  readonly from: UnixMs;
  readonly to: UnixMs;
  readonly stage: ReprocessStage;
  /** Null: every client. */
  readonly client_id: number | null;
  readonly override_decisions: boolean;
  readonly allow_closed_months: boolean;
  readonly reason: string;
  /** Whom decisions name. */
  readonly user_id: number;
  /** What is written; null: it is compared, and nothing is written. */
  readonly writes: {
    /** The comparison, and what it found, as a digest. */
    readonly of: string;
    readonly digest: string;
  } | null;
}

/** A move as it is kept: what is asked for does not depend on when it is read. */
export type Move =
  | {
      readonly move: "rewind";
      /** The first stage or sink of its group. */
      readonly target: string;
      /** `earliest`, `offset:N`, or a time as RFC 3339 in UTC. */
      readonly from: string;
      readonly reason: string;
      /** Goes back as far as the log reaches. */
      readonly partial: boolean;
    }
  | { readonly move: "relearn"; readonly target: string; readonly reason: string }
  | {
      readonly move: "replay";
      readonly sinks: readonly string[];
      readonly from: UnixMs;
      /** Null: to the end that the log has when it begins. */
      readonly to: UnixMs | null;
      readonly reason: string;
    }
  | Reprocess;

/** A part of the log that is read again: [from, to). */
export interface MovedPartition {
  readonly topic: string;
  readonly partition: number;
  readonly from: number;
  readonly to: number;
}
export interface MovePlan {
  /** What no two open moves may touch at once: the group; of a replay its sinks. */
  readonly subject: string;
  /** Stages and sinks that read again. */
  readonly nodes: readonly string[];
  readonly records: number;
  /** Null where nothing says how fast it goes. */
  readonly seconds: number | null;
  readonly partitions: readonly MovedPartition[];
  /** What is written again and what stays as it is, one sentence each. */
  readonly consequences: readonly string[];
  /** Why it is refused, one sentence; null when it is not. */
  readonly problem: string | null;
  /** Changes when what was planned is no longer what would be done. */
  readonly digest: string;
}

// A job on the log (rewind, relearn, replay, reprocess) as it is requested, and the plan of its
// effects.
import type { UnixMs } from "../../../stream/flow.ts";
import type { ReprocessStage } from "../../money/reprocess/ports.ts";

export interface Reprocess {
  readonly move: "reprocess";
  /** Time of receipt. */
  readonly from: UnixMs;
  readonly to: UnixMs;
  readonly stage: ReprocessStage;
  /** Null: every client. */
  readonly client_id: number | null;
  readonly override_decisions: boolean;
  readonly allow_closed_months: boolean;
  readonly reason: string;
  /** The user that decisions name. */
  readonly user_id: number;
  /** The comparison whose result the job writes; null: the job only compares. */
  readonly writes: {
    /** The comparison, and the digest of its result. */
    readonly of: string;
    readonly digest: string;
  } | null;
}

/** A stored job: the request has the same meaning whenever it is read. */
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
      /** Null: up to the end of the log when it begins. */
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
  /** The group, or the sinks of a replay, that no two open jobs may change at once. */
  readonly subject: string;
  /** Stages and sinks that read again. */
  readonly nodes: readonly string[];
  readonly records: number;
  /** Null if no rate has been measured. */
  readonly seconds: number | null;
  readonly partitions: readonly MovedPartition[];
  /** The effects of the job: what is written again and what stays, one sentence each. */
  readonly consequences: readonly string[];
  /** Why it is refused, one sentence; null when it is allowed. */
  readonly problem: string | null;
  /** Changes when carrying out the job would have other effects than planned. */
  readonly digest: string;
}

// The plan of a client for a month, and its lines by partner and segment.

export interface PlanKey {
  readonly client_id: number;
  readonly year: number;
  readonly month: number;
}
export interface PlanLine {
  readonly partner_id: number;
  /** Null: all segments of the partner that have no line of their own. */
  readonly segment: string | null;
  /** Planned commission. */
  readonly budget_minor: bigint;
  readonly target_conversions: number;
  /** Percent; null: none was given. */
  readonly rate: string | null;
}
export interface Plan {
  /** 0: there is none yet. */
  readonly version: number;
  readonly status: "draft" | "approved";
  /** Of all its amounts; undefined while there is none. */
  readonly currency: string | undefined;
  readonly lines: readonly PlanLine[];
  readonly step: number;
}

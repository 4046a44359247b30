// The plan of a client for a month, with its lines by partner and segment.

export interface PlanKey {
  readonly client_id: number;
  readonly year: number;
  readonly month: number;
}
export interface PlanLine {
  readonly partner_id: number;
  /** Null for all segments of the partner that have no line of their own. */
  readonly segment: string | null;
  /** The planned commission. */
  readonly budget_minor: bigint;
  readonly target_conversions: number;
  /** A percentage; null: none was given. */
  readonly rate: string | null;
}
export interface Plan {
  /** 0: there is no plan yet. */
  readonly version: number;
  readonly status: "draft" | "approved";
  /** The currency of all amounts; undefined while there is no plan. */
  readonly currency: string | undefined;
  readonly lines: readonly PlanLine[];
  readonly step: number;
}

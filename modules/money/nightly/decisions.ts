// Turns findings into decisions, one a finding and conversion, with ids that are the same every
// time.

import { uuidOf } from "../../../domain/ids.ts";
import { decisionOnLine } from "../../../processors/settle/decision-claim.ts";
import type { Claim, EventReceived } from "../../../schemas/generated.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { Finding } from "./findings.ts";

/**
 * A conversion of the day that was credited by a click, with enough of its event to find its line.
 */
export interface FlaggedConversion {
  readonly event: Pick<
    EventReceived,
    | "event_id"
    | "t"
    | "order_id"
    | "product_id"
    | "did"
    | "source"
    | "dedup_key"
    | "lead_key"
    | "sale_hash"
    | "warnings"
  >;
  readonly partner_id: number;
  /** Time from the click to the conversion. */
  readonly elapsed_ms: number;
  /** Codes of the reasons that it has already. */
  readonly codes: readonly string[];
}

/**
 * The client, the day of Mexico City as YYYY-MM-DD, and the scores from which its commissions are
 * held and its credits refused.
 */
export interface DecidedDay {
  readonly client_id: number;
  readonly day: string;
  readonly review_from: number;
  readonly reject_from: number;
  /** The time of the decisions. */
  readonly at: UnixMs;
}

const HOUR_MS = 3_600_000;
const isOf = ({ partner_id, from, to }: Finding, one: FlaggedConversion): boolean =>
  one.partner_id === partner_id && one.elapsed_ms >= from * HOUR_MS && one.elapsed_ms < to * HOUR_MS;

/** Skips conversions that already have the code, so a pass that runs again adds no decision. */
export const decisionsOf = (
  findings: readonly Finding[],
  conversions: readonly FlaggedConversion[],
  inspected: DecidedDay,
): readonly Claim[] =>
  findings.flatMap((finding) =>
    conversions
      .filter((one) => isOf(finding, one) && !one.codes.includes(finding.reason.code))
      .map(({ event }) =>
        decisionOnLine(inspected.client_id, event, {
          decision_id: uuidOf(
            "nightly",
            inspected.client_id,
            finding.partner_id,
            inspected.day,
            finding.reason.code,
            event.event_id,
          ),
          kind: "flag",
          actor: "job:nightly",
          partner_id: null,
          campaign_id: null,
          reason: `found over the distributions of ${inspected.day}`,
          at: inspected.at,
          flags: [finding.reason],
          review_from: inspected.review_from,
          reject_from: inspected.reject_from,
        }),
      ),
  );

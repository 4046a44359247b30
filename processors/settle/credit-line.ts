// Gives a line to its partner and takes it back, writing one conversion record for each change.

import { derivedId, prefixed } from "../../domain/ids.ts";
import type { Claim, Conversion, EventAttributed, EventReceived } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { type Line, rowOf } from "./order.ts";

/**
 * What one claim changes: the claim, and the conversion records so far, whose number makes the next
 * id.
 */
export interface Changes {
  readonly cause: Recorded<Claim>;
  readonly records: Conversion[];
  /**
   * What is changed by a decision, at once or when its line comes, is so under the decision's id.
   */
  readonly decisionId?: string;
}

/** A placeholder in the place of a device id names no customer. */
const isNobody = ({ warnings }: EventReceived): boolean => warnings.includes("weak_did");

const recordOf = (
  { cause, records, decisionId }: Changes,
  line: Line,
  { event, enrichment, credit }: EventAttributed,
  change: {
    readonly kind: Conversion["kind"];
    readonly value_minor: bigint;
    readonly refunded_minor: bigint;
    readonly reason: string | null;
  },
): Conversion => ({
  change_id: derivedId("settle", cause.id, "conversions", records.length),
  conversion_id: line.conversion_id!,
  kind: change.kind,
  version: line.conversion_version,
  client_id: event.client_id,
  partner_id: line.partner_id!,
  campaign_id: line.campaign_id,
  event_id: line.event_id,
  cause_event_id: decisionId ?? cause.id,
  event_type: event.t === "custom" && event.custom_name !== null ? event.custom_name : event.t,
  order_id: event.order_id,
  product_id: event.product_id,
  segment: event.product_line,
  quantity: event.quantity,
  customer: enrichment.person ?? (isNobody(event) ? "" : event.did),
  device: enrichment.person === null || isNobody(event) ? null : event.did,
  occurred_at: line.at,
  value_minor: change.value_minor,
  line_value_minor: line.value_minor,
  refunded_minor: change.refunded_minor,
  currency: line.currency,
  reason: change.reason,
  review: line.review,
  known_at: change.kind === "credited" && line.known_at !== cause.receivedAt ? line.known_at : null,
  method: credit.method ?? "unknown",
  rule_id: credit.rule_id,
  rule_version: credit.rule_version,
  recalculates: change.kind !== "credited" || (cause.data.decision?.recalculates ?? true),
});

/**
 * Opens a conversion of the line for the partner of its row; what was refunded already is taken
 * back at once, so the order of arrival does not show in the sum. `knownAt`: whose contracts hold,
 * those of the claim at hand unless it says otherwise.
 */
export const creditLine = (
  changes: Changes,
  line: Line,
  row: EventAttributed,
  knownAt = changes.cause.receivedAt,
): Line => {
  const credited: Line = {
    ...line,
    known_at: knownAt,
    status: "credited",
    partner_id: row.credit.partner_id,
    campaign_id: row.credit.campaign_id,
    conversion_id: prefixed("cnv", derivedId("settle", changes.cause.id, "conversion", changes.records.length)),
    conversion_version: 1,
  };
  changes.records.push(
    recordOf(changes, credited, row, {
      kind: "credited",
      value_minor: line.value_minor,
      refunded_minor: 0n,
      reason: null,
    }),
  );
  return line.refunded_minor > 0n || line.is_returned
    ? takeBack(changes, credited, line.refunded_minor, line.refund_reason, row)
    : credited;
};

/**
 * Takes `part` of a credited line back from the partner who holds it; `line` already counts it as
 * refunded. An open line has no partner to take from.
 */
export const takeBack = (
  changes: Changes,
  line: Line,
  part: bigint,
  reason: string | null,
  row?: EventAttributed,
): Line => {
  if (line.status !== "credited") return line;
  const next: Line = {
    ...line,
    status: line.is_returned ? "reversed" : "credited",
    conversion_version: line.conversion_version + 1,
  };
  const change = { kind: "reversed", value_minor: part, refunded_minor: line.refunded_minor, reason } as const;
  changes.records.push(recordOf(changes, next, row ?? rowOf(line), change));
  return next;
};

/**
 * Without the conversions that the claim opened for partners who do not hold its line at the end:
 * decisions had waited for it, so the sale never was theirs and moves nothing of theirs.
 */
export const withoutPassing = (changes: Changes, { event_id, partner_id, conversion_id }: Line): Changes => {
  const { records } = changes;
  // Nearly every sale is credited once, and nothing takes it back at once.
  if (records.length < 2) return changes;
  const held = partner_id === null ? null : conversion_id;
  const isPassing = (one: Conversion): boolean =>
    one.kind === "credited" && one.event_id === event_id && one.conversion_id !== held;
  const passing = new Set(records.filter(isPassing).map((one) => one.conversion_id));
  return { ...changes, records: records.filter((one) => !passing.has(one.conversion_id)) };
};

/** Takes all that is left from the partner who holds the line. */
export const closeLine = (changes: Changes, line: Line, reason: string): Line =>
  takeBack(
    changes,
    { ...line, refunded_minor: line.value_minor, is_returned: true },
    line.value_minor - line.refunded_minor,
    reason,
  );

/** The commission of a credited line is no longer held; what was taken back of it stays so. */
export const releaseLine = (changes: Changes, line: Line, reason: string): Line => {
  const next: Line = { ...line, review: null, conversion_version: line.conversion_version + 1 };
  const change = { kind: "released", value_minor: 0n, refunded_minor: line.refunded_minor, reason } as const;
  changes.records.push(recordOf(changes, next, rowOf(line), change));
  return next;
};

/**
 * The line is worth, or reviewed, differently now: its conversion is closed, and another opened
 * unless nothing is left to credit. It is the same sale, so the contract stays that of its claim.
 */
export const creditAgain = (
  changes: Changes,
  before: Line,
  after: Line,
  row: EventAttributed,
  reason: string,
): Line => {
  const closed = closeLine(changes, before, reason);
  if (after.is_returned) return { ...after, status: "reversed", conversion_version: closed.conversion_version };
  return creditLine(changes, after, row, before.known_at ?? before.received_at);
};

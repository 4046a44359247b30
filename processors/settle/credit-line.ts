// Credits a line to its partner or takes it back, with one conversion record for each change.

import { derivedId, prefixed } from "../../domain/ids.ts";
import type { Claim, Conversion, EventAttributed, EventReceived } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { knownAtOf, type Line, rowOf } from "./order.ts";

/**
 * The changes of one claim: the claim itself, and the conversion records so far. Their count is
 * part of the next record's id.
 */
export interface Changes {
  readonly cause: Recorded<Claim>;
  readonly records: Conversion[];
  /**
   * Changes made by a decision carry the decision's id, even if the decision had to wait for its
   * line.
   */
  readonly decisionId?: string;
}

/** A placeholder device id does not identify a customer. */
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
  known_at: change.kind === "credited" ? knownAtOf(cause.receivedAt, line.known_at ?? line.received_at) : null,
  method: credit.method ?? "unknown",
  rule_id: credit.rule_id,
  rule_version: credit.rule_version,
  recalculates: change.kind !== "credited" || !line.earns_nothing,
  hold_from: line.dated === null || line.received_at <= line.at ? null : line.received_at,
  dated_by: line.dated === null || line.dated.by === "event" ? null : line.dated.by,
  dated_because: line.dated?.because ?? null,
});

/**
 * Opens a conversion of the line for the partner in its row. Earlier refunds are reversed at once,
 * so the order of arrival does not affect the sum. `knownAt` selects the known contracts; by
 * default it is the receipt of the current claim.
 */
export const creditLine = (
  changes: Changes,
  line: Line,
  row: EventAttributed,
  knownAt = changes.cause.receivedAt,
): Line => {
  const credited: Line = {
    ...line,
    known_at: knownAtOf(line.received_at, knownAt),
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
 * Reverses `part` of a credited line from the partner who holds it. `line` already counts the part
 * as refunded. An open line has no partner, so nothing happens.
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
 * Removes the conversions that this claim opened for partners who no longer hold the line at the
 * end, because waiting decisions moved it on. The sale was never theirs, so it moves none of their
 * money.
 */
export const withoutPassing = (changes: Changes, { event_id, partner_id, conversion_id }: Line): Changes => {
  const { records } = changes;
  // Nearly every sale is credited once and not reversed in the same claim.
  if (records.length < 2) return changes;
  const held = partner_id === null ? null : conversion_id;
  const isPassing = (one: Conversion): boolean =>
    one.kind === "credited" && one.event_id === event_id && one.conversion_id !== held;
  const passing = new Set(records.filter(isPassing).map((one) => one.conversion_id));
  return { ...changes, records: records.filter((one) => !passing.has(one.conversion_id)) };
};

/** Reverses everything that is left from the partner who holds the line. */
export const closeLine = (changes: Changes, line: Line, reason: string): Line =>
  takeBack(
    changes,
    { ...line, refunded_minor: line.value_minor, is_returned: true },
    line.value_minor - line.refunded_minor,
    reason,
  );

/** Ends the hold on a credited line's commission. Reversals made before stay as they are. */
export const releaseLine = (changes: Changes, line: Line, reason: string): Line => {
  const next: Line = { ...line, review: null, conversion_version: line.conversion_version + 1 };
  const change = { kind: "released", value_minor: 0n, refunded_minor: line.refunded_minor, reason } as const;
  changes.records.push(recordOf(changes, next, rowOf(line), change));
  return next;
};

/**
 * The value or the review of a line has changed, so its conversion is closed and a new one opened,
 * unless nothing is left to credit. It is the same sale, so the contract of its first claim still
 * applies.
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

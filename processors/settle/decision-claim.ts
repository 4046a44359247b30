// Builds claims from decisions and refunds that a person or a job makes. Each is keyed by its order
// and names the event that it is about.

import { spellingOfBefore } from "../../domain/ids.ts";
import { blankEvent, nothingFound } from "../../domain/nothing-found.ts";
import type { ReferenceAt } from "../../domain/reference/reference.ts";
import type { REFUND_REASONS } from "../../domain/refunds.ts";
import type { Claim, Decision, EventAttributed, EventReceived } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { claimKindOf, orderKeyOf } from "../attribute/claims.ts";

/** Fields that only a reprocess or an undo sets, and what stands after a release. */
type OfReprocess = "review" | "overrides" | "claimed_by" | "recalculates" | "keep" | "withdraws";
type DecisionInput = Omit<Decision, "scope" | OfReprocess> & Partial<Pick<Decision, OfReprocess>>;
/** Neither a decision nor a refund makes a sale. */
const undated = { dated_by: null, dated_because: null } as const;
const whole = {
  ...{ review: null, overrides: false, claimed_by: [], recalculates: true, keep: null },
  withdraws: false,
} as const;

/** A decision about every line of an order. The order may still be unknown. */
export const decisionOnOrder = (clientId: number, orderId: string, said: DecisionInput): Claim => ({
  client_id: clientId,
  order_key: `o:${spellingOfBefore(orderId)}`,
  kind: "decision",
  attributed: blank({
    event_id: said.decision_id,
    client_id: clientId,
    t: "decision",
    ts: said.at,
    order_id: spellingOfBefore(orderId),
  }),
  decision: { ...whole, ...said, scope: "order" },
  line_event_id: null,
  currency: null,
  ...undated,
  moved: null,
});

/**
 * A decision about the line that a conversion created or is a copy of. Of its event, only the
 * fields that identify the line are read.
 */
export const decisionOnLine = (
  clientId: number,
  event: Pick<EventReceived, "event_id" | "t"> & Partial<EventReceived>,
  said: DecisionInput,
): Claim => {
  const attributed = blank({ ts: said.at, ...event, client_id: clientId });
  return {
    client_id: clientId,
    order_key: orderKeyOf(attributed.event),
    kind: "decision",
    attributed,
    decision: { ...whole, ...said, scope: "line" },
    line_event_id: null,
    currency: null,
    ...undated,
    moved: null,
  };
};

/**
 * A decision about the line that the event created or is a copy of. If the event is no claim, the
 * decision is about the event itself. `reference` holds the data at event time.
 */
export const decisionOnEvent = (attributed: EventAttributed, reference: ReferenceAt, said: DecisionInput): Claim => ({
  client_id: attributed.event.client_id,
  order_key: orderKeyOf(attributed.event),
  kind: "decision",
  attributed,
  decision: { ...whole, ...said, scope: claimKindOf(attributed.event, reference) === "conversion" ? "line" : "event" },
  line_event_id: null,
  currency: null,
  ...undated,
  moved: null,
});

/**
 * A decision about the line that settle remembers under the order's key, or about the event if it
 * has no line. `today` is the row as computed now, with the version that it must follow.
 */
export const decisionOnRow = (
  orderKey: string,
  today: EventAttributed,
  scope: "line" | "event",
  said: DecisionInput,
): Claim => ({
  client_id: today.event.client_id,
  order_key: orderKey,
  kind: "decision",
  attributed: today,
  decision: { ...whole, ...said, scope },
  line_event_id: null,
  currency: null,
  ...undated,
  moved: null,
});

/** A refund that a person enters, for the line of an event or for an order. */
export interface PersonsRefund {
  /** A UUID. It becomes the event id of the refund, so the refund counts once. */
  readonly event_id: string;
  readonly at: UnixMs;
  /** Null means everything that is left. An amount always names its currency. */
  readonly amount: { readonly minor: bigint; readonly currency: string } | null;
  readonly cause: (typeof REFUND_REASONS)[number];
  /** The id under which the payment provider or the shop may report the same refund. */
  readonly refund_id: string | null;
}

/** `product_id` is null for a refund of the whole order. */
export const refundOfOrder = (
  clientId: number,
  orderId: string,
  { product_id, ...refund }: PersonsRefund & { readonly product_id: string | null },
): Claim => {
  const order_id = spellingOfBefore(orderId);
  return refundClaimOf(clientId, { order_key: `o:${order_id}`, line_event_id: null }, refund, { order_id, product_id });
};

/** `event` created the line; `order_key` is where the line is remembered. */
export const refundOfLine = (
  clientId: number,
  {
    order_key,
    event,
  }: { readonly order_key: string; readonly event: Pick<EventReceived, "event_id"> & Partial<EventReceived> },
  refund: PersonsRefund,
): Claim => {
  const { event_id: line_event_id, order_id = null, sender_event_id } = event;
  const named = sender_event_id == null ? {} : { refunded_event_id: sender_event_id };
  return refundClaimOf(clientId, { order_key, line_event_id }, refund, { order_id, props: named });
};

const refundClaimOf = (
  client_id: number,
  place: Pick<Claim, "order_key" | "line_event_id">,
  { event_id, at: ts, amount, cause: reason, refund_id }: PersonsRefund,
  { props = {}, ...about }: { readonly props?: object } & Partial<Pick<EventReceived, "order_id" | "product_id">>,
): Claim => {
  const currency = amount?.currency ?? null;
  const said = { ...props, reason, ...(currency !== null && { currency }), ...(refund_id !== null && { refund_id }) };
  return {
    ...{ client_id, ...place, kind: "refund", decision: null, currency: null, ...undated, moved: null },
    attributed: blank({
      ...{ event_id, client_id, t: "refund", ts, currency, value_minor: amount?.minor ?? null },
      ...{ ...about, props: JSON.stringify(said) },
    }),
  };
};

/**
 * The record for the log. Event time and receipt time are the time of the decision or of the move.
 */
export const decisionRecord = (claim: Claim) => ({
  at: claim.decision?.at ?? claim.moved?.at ?? claim.attributed.event.ts,
  data: claim,
});

/**
 * An empty event for the claim. It is never stored: settle only reads the fields that identify an
 * order and its line.
 */
const blank = (known: Parameters<typeof blankEvent>[0]): EventAttributed => ({
  event: blankEvent(known),
  ...nothingFound,
  credit: {
    status: "unattributed",
    method: null,
    reason: null,
    partner_id: null,
    campaign_id: null,
    link_id: null,
    rule_id: null,
    rule_version: null,
    clicked_at: null,
    window_days: null,
    candidates: [],
    reference_as_of: null,
  },
  version: 1,
  merged_into: null,
  refunded_minor: null,
});

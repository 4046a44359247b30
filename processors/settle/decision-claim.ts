// What a person or a job says about an order, as a claim: a decision, or a refund. It is under the
// key of the order, with the event that it is about.

import { blankEvent, nothingFound } from "../../domain/nothing-found.ts";
import { orderIdOf } from "../../domain/order-id.ts";
import type { ReferenceAt } from "../../domain/reference/reference.ts";
import type { REFUND_REASONS } from "../../domain/refunds.ts";
import type { Claim, Decision, EventAttributed, EventReceived } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { claimKindOf, orderKeyOf } from "../attribute/claims.ts";

/** What is said beside what it is about; the last four only by a reprocess. */
type OfReprocess = "review" | "overrides" | "claimed_by" | "recalculates";
type DecisionInput = Omit<Decision, "scope" | OfReprocess> & Partial<Pick<Decision, OfReprocess>>;
const whole = { review: null, overrides: false, claimed_by: [], recalculates: true } as const;

/** Every line of an order; the order need not have been heard of. */
export const decisionOnOrder = (clientId: number, orderId: string, said: DecisionInput): Claim => ({
  client_id: clientId,
  order_key: `o:${orderIdOf(orderId)}`,
  kind: "decision",
  attributed: blank({
    event_id: said.decision_id,
    client_id: clientId,
    t: "decision",
    ts: said.at,
    order_id: orderIdOf(orderId),
  }),
  decision: { ...whole, ...said, scope: "order" },
  line_event_id: null,
  currency: null,
  moved: null,
});

/**
 * The line that a conversion made, or is a copy of; only what names the line is read of its event.
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
    moved: null,
  };
};

/**
 * The line that the event made, or is a copy of; or the event itself, when it is no claim.
 * `reference`: as it was at event time.
 */
export const decisionOnEvent = (attributed: EventAttributed, reference: ReferenceAt, said: DecisionInput): Claim => ({
  client_id: attributed.event.client_id,
  order_key: orderKeyOf(attributed.event),
  kind: "decision",
  attributed,
  decision: { ...whole, ...said, scope: claimKindOf(attributed.event, reference) === "conversion" ? "line" : "event" },
  line_event_id: null,
  currency: null,
  moved: null,
});

/**
 * The line that settle remembers under the order's key, or the event itself when it is none;
 * `today` is what is made of it now, with the version that it is to follow.
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
  moved: null,
});

/** What a person gives back of a sale: of the line that an event made, or of an order. */
export interface PersonsRefund {
  /** A UUID: the refund is an event of that id, and counts once. */
  readonly event_id: string;
  readonly at: UnixMs;
  /** Null: all that is left of it. With an amount its currency is named. */
  readonly amount: { readonly minor: bigint; readonly currency: string } | null;
  readonly cause: (typeof REFUND_REASONS)[number];
  /** By which it meets what a processor or the shop reports of it. */
  readonly refund_id: string | null;
}

/** `product_id`: null of the whole order. */
export const refundOfOrder = (
  clientId: number,
  orderId: string,
  { product_id, ...refund }: PersonsRefund & { readonly product_id: string | null },
): Claim => {
  const order_id = orderIdOf(orderId);
  return refundClaimOf(clientId, { order_key: `o:${order_id}`, line_event_id: null }, refund, { order_id, product_id });
};

/** `event`: the one that made the line; `order_key`: where the line is remembered. */
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
    ...{ client_id, ...place, kind: "refund", decision: null, currency: null, moved: null },
    attributed: blank({
      ...{ event_id, client_id, t: "refund", ts, currency, value_minor: amount?.minor ?? null },
      ...{ ...about, props: JSON.stringify(said) },
    }),
  };
};

/** As it enters the log: event time and receipt are when it was decided, or moved. */
export const decisionRecord = (claim: Claim) => ({
  at: claim.decision?.at ?? claim.moved?.at ?? claim.attributed.event.ts,
  data: claim,
});

/**
 * Claims carry an event. This one is never stored: only what names an order and its line is read of
 * it.
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

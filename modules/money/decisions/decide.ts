// Turns a person's decision about an order or one of its lines, including a refund, into a claim
// and an audit row. The platform API and the command line both use it.
import { meetingId, spellingOfBefore } from "../../../domain/ids.ts";
import { toDecimal } from "../../../domain/money.ts";
import {
  decisionOnLine,
  decisionOnOrder,
  type PersonsRefund,
  refundOfLine,
  refundOfOrder,
} from "../../../processors/settle/decision-claim.ts";
import { isSameProduct, type Line, type OrderState, type Refund } from "../../../processors/settle/order.ts";
import { isHeld } from "../../../processors/settle/refund-claim.ts";
import type { Claim, DecisionKind } from "../../../schemas/generated.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { LineOfEvent } from "../orders/line-of-event.ts";

/**
 * A whole order, one product of it (only for refunds), or the line that an event made: leads,
 * installs and custom sales have no order.
 */
export type Subject =
  | { readonly order_id: string; readonly product_id?: string | undefined }
  | { readonly line: LineOfEvent };

interface DecisionWords {
  /** A UUID. A repeated decision has the same id, and counts once. */
  readonly decision_id: string;
  readonly client_id: number;
  readonly subject: Subject;
  readonly actor: string;
  /** A sentence for the audit. */
  readonly reason: string;
  readonly at: UnixMs;
}
export interface CreditDecision extends DecisionWords {
  readonly kind: Extract<DecisionKind, "assign" | "reattribute" | "take_back" | "release" | "reject">;
  /** The partner of assign and reattribute. */
  readonly partner_id: number | null;
  readonly campaign_id: number | null;
  /** Of a release: which of an order's total and its lines stands, if they differ. */
  readonly keep?: Keep | undefined;
}
export type Keep = "total" | "lines";
export interface RefundDecision extends DecisionWords, Pick<PersonsRefund, "amount" | "cause" | "refund_id"> {
  readonly kind: "refund";
}
export type PersonsDecision = CreditDecision | RefundDecision;

/** A copy of a whole order concerns each of its lines, which only settle knows. */
const namedBy = ({ event, copy }: LineOfEvent): LineOfEvent["event"] => copy ?? event;

/** No score reaches this value, so a person's decision never triggers a review or a reject. */
const NEVER = 101;

export const claimOf = (decided: PersonsDecision): Claim =>
  decided.kind === "refund" ? refundOf(decided) : creditOf(decided);

const creditOf = ({ client_id, subject, ...said }: CreditDecision): Claim => {
  const decision = { ...said, keep: said.keep ?? null, flags: [], review_from: NEVER, reject_from: NEVER };
  return "order_id" in subject
    ? decisionOnOrder(client_id, subject.order_id, decision)
    : { ...decisionOnLine(client_id, namedBy(subject.line), decision), order_key: subject.line.order_key };
};

const refundOf = ({
  client_id,
  subject,
  decision_id: event_id,
  at,
  amount,
  cause,
  refund_id,
}: RefundDecision): Claim => {
  const refund = { event_id, at, amount, cause, refund_id };
  return "order_id" in subject
    ? refundOfOrder(client_id, subject.order_id, { ...refund, product_id: meetingId(subject.product_id) })
    : refundOfLine(client_id, { order_key: subject.line.order_key, event: namedBy(subject.line) }, refund);
};

/** The key under which settle remembers the order. */
export const memoryKeyOf = ({ client_id, subject }: Pick<PersonsDecision, "client_id" | "subject">): string =>
  `${client_id}:${"order_id" in subject ? `o:${spellingOfBefore(subject.order_id)}` : subject.line.order_key}`;

/** The held refund that the subject names. */
export const heldRefundOf = (subject: Subject, { refunds }: Pick<OrderState, "refunds">): Refund | undefined =>
  "line" in subject ? refunds.find((one) => one.event_id === namedBy(subject.line).event_id && isHeld(one)) : undefined;

/** All lines of an order or of a product, or the lines that the event made or is a copy of. */
export const linesOf = (subject: Subject, lines: readonly Line[]): readonly Line[] => {
  if ("order_id" in subject)
    return lines.filter(
      ({ product_key }) => subject.product_id === undefined || isSameProduct(product_key, subject.product_id),
    );
  const linesNamed = (eventId: string): readonly Line[] =>
    lines.filter(({ event_id, copied }) => event_id === eventId || copied.includes(eventId));
  const named = linesNamed(namedBy(subject.line).event_id);
  // A line remembers only its newest copies.
  return named.length > 0 ? named : linesNamed(subject.line.event.event_id);
};

const entityOfOrder = (clientId: number, orderId: string): string => `order:${clientId}:${spellingOfBefore(orderId)}`;

/** The name in the audit of the order, or of the event without an order, that decisions concern. */
export const entityOf = (clientId: number, orderId: string | null | undefined, eventId: string): string =>
  orderId == null ? `event:${clientId}:${eventId}` : entityOfOrder(clientId, orderId);

const entityOfSubject = ({ client_id, subject }: PersonsDecision): string => {
  if ("order_id" in subject) return entityOfOrder(client_id, subject.order_id);
  const { order_id, event_id } = namedBy(subject.line);
  return entityOf(client_id, order_id, event_id);
};

const ACTIONS = {
  assign: "sale.assigned",
  reattribute: "sale.reattributed",
  take_back: "sale.taken_back",
  release: "review.released",
  reject: "review.rejected",
  refund: "sale.refunded",
} as const;

/** The audit row of a decision; `lines` are the lines concerned, as they were before. */
export const auditOf = (decided: PersonsDecision, lines: readonly Line[], action: string = ACTIONS[decided.kind]) => {
  const { client_id, subject, decision_id, kind, reason } = decided;
  return {
    action,
    client_id,
    entity: entityOfSubject(decided),
    before: { partner_ids: [...new Set(lines.flatMap(({ partner_id }) => (partner_id === null ? [] : [partner_id])))] },
    after: {
      ...{ decision_id, kind, reason },
      ...(decided.kind === "refund"
        ? refundInAudit(decided)
        : { partner_id: decided.partner_id, campaign_id: decided.campaign_id, ...keepInAudit(decided) }),
      ...("line" in subject && { event_id: namedBy(subject.line).event_id }),
    },
  };
};

const keepInAudit = ({ keep }: CreditDecision) => (keep === undefined ? {} : { keep });

const refundInAudit = ({ amount, cause, refund_id, subject }: RefundDecision) => ({
  amount: amount === null ? "all" : toDecimal(amount.minor, amount.currency),
  ...(amount !== null && { currency: amount.currency }),
  ...{ cause, refund_id },
  ...("order_id" in subject && subject.product_id !== undefined && { product_id: subject.product_id }),
});

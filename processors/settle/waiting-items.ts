// Lists the open items of an order: items that wait for their sale or for a person, and refunds
// that exceed it for good.

import type { UnixMs } from "../../stream/flow.ts";
import {
  COMPLETE_AFTER_MS,
  firstReceiptOf,
  isSameProduct,
  isWithoutProduct,
  type Line,
  type OrderState,
  productOf,
  type Refund,
} from "./order.ts";
import { isHeld } from "./refund-claim.ts";
import { isMeasured, namesLine, spread } from "./spread.ts";

export interface WaitingItem {
  /**
   * refund and decision: their line does not exist yet. refund_twice: another source has reported a
   * refund alike, and a person has to tell whether both are one. held: waits for a person. void:
   * the excess of refunds, which waits for nothing.
   */
  readonly kind: "refund" | "refund_twice" | "decision" | "held" | "void";
  /**
   * The id of the refund, of the decision, or of the event that created the line. Null for the
   * excess of all refunds together.
   */
  readonly id: string | null;
  readonly reason: string;
  readonly product_id: string | null;
  readonly partner_id: number | null;
  readonly amount_minor: bigint | null;
  readonly currency: string | null;
  readonly since: UnixMs;
}

const reasonOf = (refund: Refund, lines: readonly Line[]): string => {
  const named = lines.filter((line) => namesLine(refund, line));
  if (refund.line_event_id !== null && named.length === 0) return "no_such_event";
  if (lines.length === 0) return "no_sale";
  return named.some((line) => isMeasured(refund, line)) ? "other_currency" : "no_such_line";
};

const held = (line: Line): readonly WaitingItem[] =>
  line.review === null || line.status !== "credited"
    ? []
    : [
        {
          kind: "held",
          id: line.event_id,
          reason: line.review,
          product_id: isWithoutProduct(line) ? null : line.product_key,
          partner_id: line.partner_id,
          amount_minor: line.value_minor - line.refunded_minor,
          currency: line.currency,
          since: line.received_at,
        },
      ];

/** `now` decides whether an order's lines are complete; then the excess of its refunds is void. */
export const waitingOf = ({ lines, refunds, decisions }: OrderState, now: UnixMs): readonly WaitingItem[] => {
  const first = firstReceiptOf(lines);
  const { unmet, excess } = spread(lines, refunds);
  const unfound = decisions.filter(
    ({ product_key, name, event_id }) =>
      !lines.some(
        (line) =>
          product_key === null ||
          line.event_id === event_id ||
          (isSameProduct(line.product_key, product_key) && line.name === name),
      ),
  );
  return [
    ...unmet.map(
      (refund): WaitingItem => ({
        kind: "refund",
        id: refund.event_id,
        reason: reasonOf(refund, lines),
        product_id: refund.product_key,
        partner_id: null,
        amount_minor: refund.amount_minor,
        currency: refund.currency,
        since: refund.received_at === 0 && lines.length > 0 ? first : refund.received_at,
      }),
    ),
    ...refunds.filter(isHeld).map(
      ({ event_id, product_key, amount_minor, currency, received_at }): WaitingItem => ({
        ...{ kind: "refund_twice", id: event_id, reason: "refund_twice", product_id: product_key, partner_id: null },
        ...{ amount_minor, currency, since: received_at },
      }),
    ),
    ...unfound.map(
      ({ decision, product_key }): WaitingItem => ({
        kind: "decision",
        id: decision.decision_id,
        reason: lines.length === 0 ? "no_sale" : "no_such_line",
        product_id: productOf(product_key) || null,
        partner_id: decision.partner_id,
        amount_minor: null,
        currency: null,
        since: decision.at,
      }),
    ),
    ...lines.flatMap(held),
    ...(now > first + COMPLETE_AFTER_MS
      ? [...excess].map(
          ([currency, amount_minor]): WaitingItem => ({
            ...{ kind: "void", id: null, reason: "exceeds_its_lines", product_id: null, partner_id: null },
            ...{ amount_minor, currency, since: first + COMPLETE_AFTER_MS },
          }),
        )
      : []),
  ];
};

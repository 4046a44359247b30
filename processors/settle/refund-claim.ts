// Handles refund claims: a refund takes from the lines of its order, or moves to the line of the
// event that it names.

import { uuidOf } from "../../domain/ids.ts";
import { refundedEventOf } from "../../domain/refunds.ts";
import type { Claim, EventAttributed, EventReceived } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { changeLines } from "./change-lines.ts";
import type { Changes } from "./credit-line.ts";
import { rowOfCopy } from "./merge-copy.ts";
import { type OrderState, type Refund, rowOf } from "./order.ts";
import { asTheirSales, firstOf, refundOf } from "./refund.ts";
import { namesLine, spread } from "./spread.ts";

interface RefundResult {
  readonly rows: readonly { readonly row: EventAttributed; readonly at: UnixMs }[];
  readonly state: OrderState;
}

/**
 * Computes the amounts that the refunds take from each line, with the rows of those refunds that
 * their sales complete.
 */
const taken = (changes: Changes, order: OrderState, refunds: readonly Refund[], added?: Refund): RefundResult => {
  const lines = changeLines(changes, { lines: order.lines, refunds, added, before: order }, []);
  const written = asTheirSales(refunds, lines, added?.event_id ?? null);
  return { rows: written.rows, state: { ...order, lines, refunds: written.refunds } };
};

/** Handles a new refund. A copy of a known refund is stored but takes nothing. */
export const takeRefund = (changes: Changes, order: OrderState): RefundResult => {
  const { id, at, data } = changes.cause;
  const row = data.attributed;
  const asked = refundOf(changes.cause);
  const first = firstOf(order.refunds, asked, order.lines);
  if (first !== undefined) return { rows: [{ row: rowOfCopy(row, first.event_id), at }], state: order };
  if (asked.amount_minor !== null && asked.amount_minor <= 0n) return { rows: [{ row, at }], state: order };
  const { rows, state } = taken(changes, order, [...order.refunds, asked], asked);
  const isWritten = rows.some((one) => one.row.event.event_id === id);
  return { rows: isWritten ? rows : [{ row, at }, ...rows], state };
};

/**
 * The look-up returns the first copy's event. If the refund names a copy of the whole order, it is
 * about every line, so the original name is restored.
 */
const asNamed = (refund: Refund, event: EventReceived, { lines }: OrderState): Refund => {
  const named = refundedEventOf(event);
  const isOfAll = named !== null && lines.filter(({ copied }) => copied.includes(named)).length > 1;
  return isOfAll && refund.line_event_id !== null ? { ...refund, line_event_id: named } : refund;
};

/**
 * Moves a refund to the line that the look-up found: it stops waiting under its old key and is
 * deducted from the line.
 */
export const moveRefund = (changes: Changes, order: OrderState): RefundResult => {
  const asked = asNamed(refundOf(changes.cause), changes.cause.data.attributed.event, order);
  const others = order.refunds.filter(({ event_id }) => event_id !== asked.event_id);
  if (asked.line_event_id === null) return taken(changes, order, others);
  const first = firstOf(others, asked, order.lines);
  if (first === undefined) return taken(changes, order, [...others, asked]);
  const copy = rowOfCopy(changes.cause.data.attributed, first.event_id);
  const row = { ...copy, version: copy.version + 1 };
  const { rows, state } = taken(changes, order, others);
  return { rows: [{ row, at: Math.min(row.event.ts, asked.received_at) }, ...rows], state };
};

/** Refunds that name an event which neither created a line of this order nor is a copy of one. */
export const strayRefunds = ({ lines, refunds }: OrderState): readonly Refund[] =>
  refunds.every(({ line_event_id }) => line_event_id === null)
    ? []
    : spread(lines, refunds).unmet.filter(
        (refund) =>
          refund.line_event_id !== null && refund.row !== null && !lines.some((line) => namesLine(refund, line)),
      );

/** The key where the line of an event is remembered, and the event id of its first copy. */
export interface Place {
  readonly order_key: string;
  readonly event_id: string;
  /** The order id of the event. Its line may still be remembered under another key. */
  readonly order_id: string | null;
}

/**
 * Builds the claims that move a stray refund to its line. There are none if it is already there, or
 * if the refund names another order than its event does, because a look-up cannot tell which is
 * meant. Building them again gives the same ids, so a crash between them is harmless.
 */
export const moveClaims = (
  from: { readonly client_id: number; readonly order_key: string },
  refund: Refund,
  to: Place,
  now: UnixMs,
): readonly Claim[] => {
  if (refund.row === null || (from.order_key === to.order_key && refund.line_event_id === to.event_id)) return [];
  const isOfOrder = from.order_key === to.order_key || from.order_key === `o:${to.order_id}`;
  if (from.order_key.startsWith("o:") && !isOfOrder) return [];
  const claimAt = (order_key: string, line_event_id: string | null): Claim => ({
    client_id: from.client_id,
    order_key,
    kind: "refund",
    attributed: rowOf({ row: refund.row! }),
    decision: null,
    line_event_id,
    currency: null,
    moved: {
      move_id: uuidOf("moved refund", refund.event_id, order_key, line_event_id ?? ""),
      at: now,
      received_at: refund.received_at,
    },
  });
  const there = claimAt(to.order_key, to.event_id);
  return from.order_key === to.order_key ? [there] : [there, claimAt(from.order_key, null)];
};

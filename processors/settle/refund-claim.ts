// Handles refund claims: a refund takes from the lines of its order, or moves to the line of the
// event that it names.

import { spelling, uuidOf } from "../../domain/ids.ts";
import { refundedEventOf } from "../../domain/refunds.ts";
import type { Claim, Decision, EventAttributed, EventReceived } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { changeLines } from "./change-lines.ts";
import { rowOfCopy } from "./copies/merge-copy.ts";
import type { Changes } from "./credit-line.ts";
import { type OrderState, type Refund, rowOf, rowText } from "./order.ts";
import {
  asTheirSales,
  asTwin,
  counted,
  firstOf,
  orderKeyOfBefore,
  refundOf,
  toldApart,
  twinAmong,
  withoutTwin,
} from "./refund.ts";
import { byReceipt, isStandingTotal, namesLine, spread } from "./spread.ts";

interface RefundResult {
  readonly rows: readonly { readonly row: EventAttributed; readonly at: UnixMs }[];
  readonly state: OrderState;
}

/**
 * Computes the amounts that the refunds take from each line, with the rows of those refunds that
 * their sales complete.
 */
const taken = (changes: Changes, order: OrderState, refunds: readonly Refund[], asked?: Refund): RefundResult => {
  // The shortcut for a refund that came last suits neither one that takes nothing nor several.
  const isAlone = refunds.every((one) => one === asked || order.refunds.includes(one));
  const added = asked?.twin_of === null && isAlone ? asked : undefined;
  const lines = changeLines(changes, { lines: order.lines, refunds, added, before: order }, []);
  const written = asTheirSales(refunds, lines, asked?.event_id ?? null);
  return { rows: written.rows, state: { ...order, lines, refunds: written.refunds } };
};

/**
 * Handles a new refund. A copy of a known refund is stored but takes nothing. Nor does one that
 * another source has reported alike, until a person or a refund_id tells them apart.
 */
export const takeRefund = (changes: Changes, order: OrderState): RefundResult => {
  const { id, at, data } = changes.cause;
  const row = data.attributed;
  const asked = refundOf(changes.cause);
  const known = toldApart(order.refunds, asked, id);
  const first = firstOf(known, asked, order.lines);
  if (first !== undefined) {
    const copy = { row: rowOfCopy(row, first.event_id), at };
    if (known === order.refunds) return { rows: [copy], state: order };
    const { rows, state } = taken(changes, order, known);
    return { rows: [copy, ...rows], state };
  }
  if (asked.amount_minor !== null && asked.amount_minor <= 0n) return { rows: [{ row, at }], state: order };
  const twin = twinAmong(known, asked, order.lines);
  const added = twin === undefined ? asked : asTwin(asked, twin, row);
  const { rows, state } = taken(changes, order, [...known, added], added);
  const isWritten = rows.some((one) => one.row.event.event_id === id);
  const written = twin === undefined ? row : rowOf({ row: added.row! });
  return { rows: isWritten ? rows : [{ row: written, at }, ...rows], state };
};

/**
 * The look-up returns the first copy's event. If the refund names a copy of the whole order, it is
 * about every line, and if it names a part of a total that stands, it is not about all of it. So
 * the original name is restored.
 */
const asNamed = (refund: Refund, event: EventReceived, { lines }: OrderState): Refund => {
  const named = refundedEventOf(event);
  if (named === null || refund.line_event_id === null) return refund;
  const copies = lines.filter(({ copied }) => copied.includes(named));
  return copies.length > 1 || copies.some(isStandingTotal) ? { ...refund, line_event_id: named } : refund;
};

/**
 * A refund that moves to another key meets other refunds there. So does one that has waited under
 * the key of its line, which it names only now.
 */
const movedTo = (
  asked: Refund,
  before: Refund | undefined,
  others: readonly Refund[],
  { lines }: OrderState,
): Refund => {
  if (before !== undefined && (before.twin_of !== null || before.was_twin !== null))
    return { ...asked, twin_of: before.twin_of, is_twin: before.is_twin, was_twin: before.was_twin };
  const twin = twinAmong(others, asked, lines);
  return twin === undefined ? asked : asTwin(asked, twin, rowOf({ row: asked.row! }));
};

/**
 * Moves a refund to the line that the look-up found: it stops waiting under its old key and is
 * deducted from the line.
 */
export const moveRefund = (changes: Changes, order: OrderState): RefundResult => {
  const asked = asNamed(refundOf(changes.cause), changes.cause.data.attributed.event, order);
  const others = order.refunds.filter(({ event_id }) => event_id !== asked.event_id);
  const { order_key, attributed } = changes.cause.data;
  const isHere = asked.line_event_id !== null || order_key === orderKeyOfBefore(attributed.event);
  if (!isHere) return taken(changes, order, withoutTwin(others, asked.event_id, changes.cause.id));
  const before = order.refunds.find(({ event_id }) => event_id === asked.event_id);
  const known = before === undefined ? toldApart(others, asked, changes.cause.id) : others;
  const first = firstOf(known, asked, order.lines);
  if (first === undefined) return taken(changes, order, [...known, movedTo(asked, before, known, order)]);
  const copy = rowOfCopy(changes.cause.data.attributed, first.event_id);
  const row = { ...copy, version: copy.version + 1 };
  const { rows, state } = taken(changes, order, known);
  return { rows: [{ row, at: Math.min(row.event.ts, asked.received_at) }, ...rows], state };
};

/** Refunds that name an event which neither created a line of this order nor is a copy of one. */
export const strayRefunds = ({ lines, refunds }: OrderState): readonly Refund[] =>
  refunds.every(({ line_event_id }) => line_event_id === null)
    ? []
    : [...spread(lines, refunds).unmet, ...refunds.filter(isHeld)]
        .filter(
          (refund) =>
            refund.line_event_id !== null && refund.row !== null && !lines.some((line) => namesLine(refund, line)),
        )
        .sort(byReceipt);

/** True if the refund waits for a person: another source has reported one alike. */
export const isHeld = ({ twin_of, is_twin }: Refund): boolean => twin_of !== null && !is_twin;

/**
 * A person's decision about a refund that is held: a release makes it count, and a reject or a
 * take-back says that it is the same refund. Any other decision about a refund has no effect.
 */
export const decideRefund = (changes: Changes, { kind }: Decision, order: OrderState): RefundResult => {
  const { event_id } = changes.cause.data.attributed.event;
  const held = order.refunds.find((one) => one.event_id === event_id && isHeld(one));
  const replaced = (next: Refund): readonly Refund[] => order.refunds.map((one) => (one === held ? next : one));
  if (held === undefined || !["release", "reject", "take_back"].includes(kind)) return { rows: [], state: order };
  if (kind === "release") return taken(changes, order, replaced(counted(held, changes.cause.id)));
  const before = rowOf({ row: held.row! });
  const row = { ...rowOfCopy(before, held.twin_of!), version: before.version + 1 };
  const refunds = replaced({ ...held, is_twin: true, row: rowText(row) });
  return { rows: [{ row, at: Math.min(row.event.ts, held.received_at) }], state: { ...order, refunds } };
};

/**
 * Refunds that met no line here, with the key under which the order that they name may be
 * remembered since before.
 */
export const refundsOfBefore = (
  { lines, refunds }: OrderState,
  orderKey: string,
): readonly { readonly refund: Refund; readonly order_key: string }[] =>
  refunds.every(({ row }) => row === null)
    ? []
    : spread(lines, refunds).unmet.flatMap((refund) => {
        if (refund.row === null || refund.line_event_id !== null) return [];
        const order_key = orderKeyOfBefore(rowOf({ row: refund.row }).event);
        return order_key === null || order_key === orderKey ? [] : [{ refund, order_key }];
      });

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
  const isOfOrder =
    from.order_key === to.order_key || (to.order_id !== null && from.order_key === `o:${spelling(to.order_id)}`);
  if (from.order_key.startsWith("o:") && !isOfOrder) return [];
  const there = moveTo(to.order_key, to.event_id, from.client_id, refund, now);
  const leaves = moveTo(from.order_key, null, from.client_id, refund, now);
  return from.order_key === to.order_key ? [there] : [there, leaves];
};

/** The same for a refund that names an order, which is remembered under its spelling of before. */
export const moveToOrder = (
  from: { readonly client_id: number; readonly order_key: string },
  refund: Refund,
  orderKey: string,
  now: UnixMs,
): readonly Claim[] =>
  [orderKey, from.order_key].map((order_key) => moveTo(order_key, null, from.client_id, refund, now));

const moveTo = (
  order_key: string,
  line_event_id: string | null,
  client_id: number,
  refund: Refund,
  now: UnixMs,
): Claim => ({
  client_id,
  order_key,
  kind: "refund",
  attributed: rowOf({ row: refund.row! }),
  decision: null,
  line_event_id,
  currency: null,
  dated_by: null,
  dated_because: null,
  moved: {
    move_id: uuidOf("moved refund", refund.event_id, order_key, line_event_id ?? ""),
    at: now,
    received_at: refund.received_at,
  },
});

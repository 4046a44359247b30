// Reads a refund, finds its copies, and completes it from its sale: currency, order and goods.

import { isWeakOrderId } from "../../domain/ids.ts";
import { isRefundReason } from "../../domain/refunds.ts";
import type { Claim, EventAttributed, EventReceived } from "../../schemas/generated.ts";
import type { Recorded, UnixMs } from "../../stream/flow.ts";
import { rowOfCopy } from "./merge-copy.ts";
import { type Line, type Refund, rowOf, rowText } from "./order.ts";
import { idIn, namesCurrency, propsIn } from "./props.ts";
import { copiesAmong, currencyOf, inDigitsOf, isOfLine, linesNamed } from "./spread.ts";

/**
 * Reads the request of a refund. A reason outside the fixed list (docs/design/contracts.md,
 * "Batch") becomes `other`. An amount without a currency is in the currency of the sale.
 */
export const refundOf = ({ receivedAt, data }: Recorded<Claim>): Refund => {
  const { event } = data.attributed;
  const given = propsIn(event);
  const currency = namesCurrency(event) ? event.currency : null;
  const refund_id = idIn(given.refund_id);
  const lacksCurrency = event.value_minor !== null && currency === null;
  return {
    event_id: event.event_id,
    product_key: data.order_key.startsWith("o:") ? event.product_id : null,
    line_event_id: data.line_event_id,
    amount_minor: event.value_minor,
    currency,
    reason: isRefundReason(given.reason) ? given.reason : "other",
    received_at: data.moved?.received_at ?? receivedAt,
    refund_id,
    row: data.line_event_id !== null || refund_id !== null || lacksCurrency ? rowText(data.attributed) : null,
  };
};

/**
 * Finds the first copy of a refund. The payment provider and the shop report a refund under one id,
 * but may name its line differently, by product or by event, and it may cover several lines.
 */
export const firstOf = (refunds: readonly Refund[], asked: Refund, lines: readonly Line[]): Refund | undefined => {
  const { refund_id, product_key, line_event_id } = asked;
  if (refund_id === null) return undefined;
  const named = linesNamed(lines);
  const own = new Set(isOfLine(asked) ? named(asked) : []);
  return refunds.find(
    (one) =>
      one.refund_id === refund_id &&
      ((one.product_key === product_key && one.line_event_id === line_event_id) ||
        (isOfLine(one) && named(one).some((line) => own.has(line)))),
  );
};

const inCurrency = (event: EventReceived, amountMinor: bigint, currency: string): EventReceived => ({
  ...event,
  currency,
  value_minor: inDigitsOf(amountMinor, currency),
});

/** A placeholder order id does not connect a refund with any sale. */
const orderIn = ({ order_id }: EventReceived): string | null =>
  order_id === null || isWeakOrderId(order_id) ? null : order_id;

/**
 * Adds the fields that the refund lacks and its sale has: the currency, and the goods of the line
 * that it names.
 */
const filledIn = (event: EventReceived, refund: Refund, sold: readonly Line[]): EventReceived => {
  const currency = refund.amount_minor === null || refund.currency !== null ? null : currencyOf(refund, sold);
  const filled =
    currency === null || currency === event.currency ? event : inCurrency(event, refund.amount_minor!, currency);
  if (refund.line_event_id === null || sold.length !== 1) return filled;
  const line = rowOf(sold[0]!).event;
  const order_id = orderIn(event) ?? orderIn(line) ?? event.order_id;
  const product_line = event.product_line ?? line.product_line;
  const isKnown =
    order_id === event.order_id && line.product_id === event.product_id && product_line === event.product_line;
  return isKnown ? filled : { ...filled, order_id, product_id: line.product_id, product_line };
};

/**
 * Completes refunds and their rows from their sale. The row gets the next version, unless the
 * refund has just arrived. If two copies waited for the same line, the first one counts.
 */
export const asTheirSales = (
  refunds: readonly Refund[],
  lines: readonly Line[],
  justCame: string | null,
): {
  readonly refunds: readonly Refund[];
  readonly rows: readonly { readonly row: EventAttributed; readonly at: UnixMs }[];
} => {
  const rows: { readonly row: EventAttributed; readonly at: UnixMs }[] = [];
  if (refunds.every(({ row }) => row === null)) return { refunds, rows };
  const named = linesNamed(lines);
  const copies = copiesAmong(refunds, named);
  const written = refunds.flatMap((refund) => {
    if (refund.row === null) return refund;
    const before = rowOf({ row: refund.row });
    const first = copies.get(refund);
    if (first !== undefined) {
      const copy = { ...rowOfCopy(before, first.event_id), version: before.version + 1 };
      rows.push({ row: copy, at: Math.min(copy.event.ts, refund.received_at) });
      return [];
    }
    const sold = named(refund);
    const event = filledIn(before.event, refund, sold);
    if (event === before.event) return refund;
    const row = { ...before, event, version: before.version + (refund.event_id === justCame ? 0 : 1) };
    rows.push({ row, at: Math.min(event.ts, refund.received_at) });
    return { ...refund, row: rowText(row) };
  });
  return { refunds: written, rows };
};

// Reads a refund, finds its copies, and completes it from its sale: currency, order and goods.

import { isPlaceholder, spelling, spellingOfBefore } from "../../domain/ids.ts";
import { isRefundReason } from "../../domain/refunds.ts";
import type { Claim, EventAttributed, EventReceived } from "../../schemas/generated.ts";
import type { Recorded, UnixMs } from "../../stream/flow.ts";
import { rowOfCopy } from "./copies/merge-copy.ts";
import { DEFAULT_CURRENCY, isSameProduct, type Line, productOf, type Refund, rowOf, rowText } from "./order.ts";
import { idIn, namesCurrency, propsIn } from "./props.ts";
import { byReceipt, copiesAmong, currencyOf, inDigitsOf, isOfLine, linesNamed } from "./spread.ts";

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
    product_key: data.order_key.startsWith("o:") ? productOf(event.product_id) || null : null,
    line_event_id: data.line_event_id,
    amount_minor: event.value_minor,
    currency,
    reason: isRefundReason(given.reason) ? given.reason : "other",
    received_at: data.moved?.received_at ?? receivedAt,
    refund_id,
    source: event.source,
    twin_of: null,
    is_twin: false,
    was_twin: null,
    row:
      data.line_event_id !== null || refund_id !== null || lacksCurrency || orderKeyOfBefore(event) !== null
        ? rowText(data.attributed)
        : null,
  };
};

/**
 * The key of the refund's order as it was before invisible characters were left out of order ids.
 * Null if it is the same.
 */
export const orderKeyOfBefore = (event: EventReceived): string | null => {
  const { order_id: given } = propsIn(event);
  if (typeof given !== "string" || event.order_id === null || isPlaceholder(event.order_id)) return null;
  const before = spellingOfBefore(given);
  return before !== event.order_id && spelling(before) === event.order_id ? `o:${before}` : null;
};

/** Null for the whole order. */
const isSameGoods = (a: string | null, b: string | null): boolean =>
  a === null || b === null ? a === b : isSameProduct(a, b);

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
      ((isSameGoods(one.product_key, product_key) && one.line_event_id === line_event_id) ||
        (isOfLine(one) && named(one).some((line) => own.has(line)))),
  );
};

/** The source of what a person enters, who knows what was refunded before. */
const BY_PERSON = "decision";
/** Shop and payment provider report one refund within this time of each other. */
const TWINS_WITHIN_MS = 48 * 3_600_000;

/** What the refund asks for, in the currency of its sale if it names none. */
const worthOf = (refund: Refund, lines: readonly Line[]): string => {
  const { amount_minor, currency } = refund;
  if (amount_minor === null) return "all";
  const own = currencyOf(refund, lines) ?? DEFAULT_CURRENCY;
  return `${currency === null ? inDigitsOf(amount_minor, own) : amount_minor} ${own}`;
};

/**
 * Finds the refund that another source reported alike: of the same worth, for the order or for a
 * line that both name, within 48 hours, and without a refund_id on both that would say which is
 * which. Each refund has at most one such twin of each source, because two events of one sender are
 * two refunds.
 */
export const twinAmong = (refunds: readonly Refund[], asked: Refund, lines: readonly Line[]): Refund | undefined => {
  const { source, refund_id, received_at, amount_minor, product_key, line_event_id } = asked;
  if (source === null || source === BY_PERSON) return undefined;
  const counting = refunds.filter(({ twin_of }) => twin_of === null);
  if (refund_id !== null && counting.some((one) => one.refund_id === refund_id)) return undefined;
  const isTold = ({ event_id }: Refund): boolean =>
    refunds.some((one) => one.twin_of === event_id && one.source === source);
  const others = counting.filter(
    (one) =>
      one.source !== null &&
      one.source !== source &&
      (one.refund_id === null || refund_id === null) &&
      (one.amount_minor === null) === (amount_minor === null) &&
      Math.abs(one.received_at - received_at) <= TWINS_WITHIN_MS,
  );
  if (others.length === 0) return undefined;
  const named = linesNamed(lines);
  const worth = worthOf(asked, named(asked));
  const own = new Set(named(asked));
  const isOfSame = (one: Refund): boolean =>
    !isOfLine(one) ||
    !isOfLine(asked) ||
    (one.product_key === product_key && one.line_event_id === line_event_id) ||
    named(one).some((line) => own.has(line));
  return others.sort(byReceipt).find((one) => isOfSame(one) && worthOf(one, named(one)) === worth && !isTold(one));
};

/** The refund counts from this claim on. */
export const counted = (refund: Refund, until: string): Refund =>
  refund.twin_of === null ? refund : { ...refund, twin_of: null, was_twin: { of: refund.twin_of, until } };

/** The twins of `first` count from this claim on. */
export const withoutTwin = (refunds: readonly Refund[], first: string, until: string): readonly Refund[] =>
  refunds.map((one) => (one.twin_of === first && !one.is_twin ? counted(one, until) : one));

/**
 * Tells two refunds apart: the source of one of them reports the refund_id of the other, so its own
 * was another refund.
 */
export const toldApart = (
  refunds: readonly Refund[],
  { refund_id, source }: Refund,
  until: string,
): readonly Refund[] => {
  if (refund_id === null || refunds.every(({ twin_of }) => twin_of === null)) return refunds;
  const isApart = ({ twin_of, is_twin, ...held }: Refund): boolean => {
    const first = twin_of === null || is_twin ? undefined : refunds.find(({ event_id }) => event_id === twin_of);
    if (first === undefined) return false;
    return held.refund_id === refund_id
      ? first.source === source
      : first.refund_id === refund_id && held.source === source;
  };
  return refunds.some(isApart) ? refunds.map((one) => (isApart(one) ? counted(one, until) : one)) : refunds;
};

/** Holds the refund as a twin. Its row says so, and is kept for the decision. */
export const asTwin = (refund: Refund, first: Refund, row: EventAttributed): Refund => {
  const { event } = row;
  const warnings = [...new Set([...event.warnings, "refund_twice"])];
  return { ...refund, twin_of: first.event_id, row: rowText({ ...row, event: { ...event, warnings } }) };
};

const inCurrency = (event: EventReceived, amountMinor: bigint, currency: string): EventReceived => ({
  ...event,
  currency,
  value_minor: inDigitsOf(amountMinor, currency),
});

/** A placeholder order id does not connect a refund with any sale. */
const orderIn = ({ order_id }: EventReceived): string | null =>
  order_id === null || isPlaceholder(order_id) ? null : order_id;

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
    if (refund.row === null || refund.is_twin) return refund;
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

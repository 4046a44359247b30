// Finds what a refund takes back: from the lines that are there, and from those that come after it.

import { digitsOf } from "../../domain/currencies.ts";
import { divideHalfEven, split } from "../../domain/money.ts";
import { REFUND_REASONS } from "../../domain/refund-reasons.ts";
import type { Claim } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { type Changes, takeBack } from "./credit-line.ts";
import { DEFAULT_CURRENCY, type Line, type OrderState, type WaitingRefund } from "./order.ts";

/** Decimals of the default currency. */
const DEFAULT_DIGITS = 2;

const propsIn = (text: string): { readonly reason?: unknown; readonly currency?: unknown } => {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
};

/**
 * What the refund asks for. A reason outside the closed list (docs/design/contracts.md, "Batch") is
 * `other`. An edge gives an amount without a currency the default one; here such an amount is in
 * whatever the sale was in.
 */
export const refundOf = ({ id, data }: Recorded<Claim>): WaitingRefund => {
  const { product_id, value_minor, currency, props } = data.attributed.event;
  const given = propsIn(props);
  return {
    event_id: id,
    product_key: product_id,
    left_minor: value_minor,
    currency: currency === DEFAULT_CURRENCY && (given.currency ?? "") === "" ? null : currency,
    reason: REFUND_REASONS.has(given.reason) ? (given.reason as string) : "other",
  };
};

/**
 * An amount in another currency than the line's says nothing about the line; a refund of all does.
 */
const concerns = (refund: WaitingRefund, line: Line): boolean =>
  (refund.product_key === null || refund.product_key === line.product_key) &&
  (refund.left_minor === null || refund.currency === null || refund.currency === line.currency);

/**
 * The refund in the currency of the first line that it meets, if it has none of its own: 5.00 of
 * the default currency is 5 yen.
 */
const inCurrencyOf = (refund: WaitingRefund, line: Line | undefined): WaitingRefund => {
  if (refund.currency !== null || refund.left_minor === null || line === undefined) return refund;
  const scaled = refund.left_minor * 10n ** BigInt(digitsOf(line.currency) ?? DEFAULT_DIGITS);
  return { ...refund, currency: line.currency, left_minor: divideHalfEven(scaled, 10n ** BigInt(DEFAULT_DIGITS)) };
};

const roomOf = (line: Line): bigint => line.value_minor - line.refunded_minor;
const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);

/**
 * A line worth nothing is given back by a refund of all and by one that names it, never by a share
 * of an amount.
 */
const withRefund = (line: Line, refund: WaitingRefund, part: bigint): Line => {
  const refunded = line.refunded_minor + part;
  const isReturned =
    line.value_minor > 0n ? refunded === line.value_minor : refund.left_minor === null || refund.product_key !== null;
  if (part === 0n && (line.is_returned || !isReturned)) return line;
  return {
    ...line,
    refunded_minor: refunded,
    refund_reason: refund.reason,
    is_returned: line.is_returned || isReturned,
  };
};

/** What is left to wait: a refund of all stays, so that it also finds lines that come late. */
const lessTaken = (refund: WaitingRefund, taken: bigint): readonly WaitingRefund[] => {
  if (refund.left_minor === null) return [refund];
  return refund.left_minor === taken ? [] : [{ ...refund, left_minor: refund.left_minor - taken }];
};

/**
 * A refund that has just come. Its amount is spread over the lines by what is left of each (largest
 * remainder), clamped to their sum; each part is taken from the partner who holds the line now.
 * What finds no line waits.
 */
export const refund = (changes: Changes, order: OrderState, asked: WaitingRefund): OrderState => {
  if (asked.left_minor !== null && asked.left_minor <= 0n) return order;
  const given = inCurrencyOf(
    asked,
    order.lines.find((line) => concerns(asked, line)),
  );
  const rooms = order.lines.map((line) => (concerns(given, line) ? roomOf(line) : 0n));
  const room = rooms.reduce((sum, one) => sum + one, 0n);
  const taken = given.left_minor === null ? room : least(given.left_minor, room);
  const parts = taken === 0n ? rooms.map(() => 0n) : split(taken, rooms);
  const lines = order.lines.map((line, n) => {
    if (!concerns(given, line)) return line;
    const next = withRefund(line, given, parts[n]!);
    return next === line ? line : takeBack(changes, next, parts[n]!, given.reason);
  });
  return { ...order, lines, refunds: [...order.refunds, ...lessTaken(given, taken)] };
};

/**
 * A line that has just come, or has just become worth more: refunds that wait for it take their
 * part, in the order in which they came.
 */
export const settleWaiting = (
  line: Line,
  waiting: readonly WaitingRefund[],
): { readonly line: Line; readonly refunds: readonly WaitingRefund[] } => {
  let settled = line;
  const refunds = waiting.flatMap((waited) => {
    if (!concerns(waited, settled)) return [waited];
    const one = inCurrencyOf(waited, settled);
    const room = roomOf(settled);
    const taken = one.left_minor === null ? room : least(one.left_minor, room);
    settled = withRefund(settled, one, taken);
    return lessTaken(one, taken);
  });
  return { line: settled, refunds };
};

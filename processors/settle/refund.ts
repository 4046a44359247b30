// processors/settle/refund.ts - finds what a refund takes back: from the lines that are there, and from those that come after it.
import type { Claim } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { split } from "../money.ts";
import { type Changes, takeBack } from "./credit-line.ts";
import type { Line, OrderState, WaitingRefund } from "./order.ts";

const REASONS: ReadonlySet<unknown> = new Set([
  "order_canceled",
  "item_returned",
  "payment_failed",
  "chargeback",
  "fraud",
  "terms_violation",
  "tracking_error",
  "duplicate",
]);

/** The reason that the sender gave, if it is one of the closed list (contracts.md 2); anything else is `other`. */
const reasonIn = (props: string): string => {
  try {
    const reason = (JSON.parse(props) as { reason?: unknown } | null)?.reason;
    return REASONS.has(reason) ? (reason as string) : "other";
  } catch {
    return "other";
  }
};

export const refundOf = ({ id, data }: Recorded<Claim>): WaitingRefund => {
  const { product_id, value_minor, currency, props } = data.attributed.event;
  return { event_id: id, product_key: product_id, left_minor: value_minor, currency, reason: reasonIn(props) };
};

/** An amount in another currency than the line's says nothing about the line; a refund of all does. */
const concerns = (refund: WaitingRefund, line: Line): boolean =>
  (refund.product_key === null || refund.product_key === line.product_key) &&
  (refund.left_minor === null || refund.currency === null || refund.currency === line.currency);

const roomOf = (line: Line): bigint => line.value_minor - line.refunded_minor;
const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);

/** A line worth nothing is given back by a refund of all and by one that names it, never by a share of an amount. */
const withRefund = (line: Line, refund: WaitingRefund, part: bigint): Line => {
  const refunded = line.refunded_minor + part;
  const isReturned = line.value_minor > 0n ? refunded === line.value_minor : refund.left_minor === null || refund.product_key !== null;
  if (part === 0n && (line.is_returned || !isReturned)) return line;
  return { ...line, refunded_minor: refunded, refund_reason: refund.reason, is_returned: line.is_returned || isReturned };
};

/** What is left to wait: a refund of all stays, so that it also finds lines that come late. */
const lessTaken = (refund: WaitingRefund, taken: bigint): readonly WaitingRefund[] => {
  if (refund.left_minor === null) return [refund];
  return refund.left_minor === taken ? [] : [{ ...refund, left_minor: refund.left_minor - taken }];
};

/**
 * A refund that has just come. Its amount is spread over the lines by what is left of each (largest remainder), clamped to their sum; each part
 * is taken from the partner who holds the line now. What finds no line waits.
 */
export const refund = (changes: Changes, order: OrderState, given: WaitingRefund): OrderState => {
  if (given.left_minor !== null && given.left_minor <= 0n) return order;
  const rooms = order.lines.map((line) => (concerns(given, line) ? roomOf(line) : 0n));
  const room = rooms.reduce((sum, one) => sum + one, 0n);
  const taken = given.left_minor === null ? room : least(given.left_minor, room);
  const parts = taken === 0n ? rooms.map(() => 0n) : split(taken, rooms);
  const lines = order.lines.map((line, n) => {
    if (!concerns(given, line)) return line;
    const next = withRefund(line, given, parts[n]!);
    return next === line ? line : takeBack(changes, next, parts[n]!, given.reason);
  });
  return { lines, refunds: [...order.refunds, ...lessTaken(given, taken)] };
};

/** A line that has just come, or has just become worth more: refunds that wait for it take their part, in the order in which they came. */
export const settleWaiting = (
  line: Line,
  waiting: readonly WaitingRefund[],
): { readonly line: Line; readonly refunds: readonly WaitingRefund[] } => {
  let settled = line;
  const refunds = waiting.flatMap((one) => {
    if (!concerns(one, settled)) return [one];
    const room = roomOf(settled);
    const taken = one.left_minor === null ? room : least(one.left_minor, room);
    settled = withRefund(settled, one, taken);
    return lessTaken(one, taken);
  });
  return { line: settled, refunds };
};

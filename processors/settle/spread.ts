// Computes how much of each line is refunded, from the lines and refunds of the order alone,
// whatever the order of arrival.

import { digitsOf, divideHalfEven, split } from "../../domain/money.ts";
import type { UnixMs } from "../../stream/flow.ts";
import {
  COMPLETE_AFTER_MS,
  DEFAULT_CURRENCY,
  firstReceiptOf,
  isSameProduct,
  isTotal,
  type Line,
  productOf,
  type Refund,
  refundableIdOf,
} from "./order.ts";

const digits = (currency: string): number => digitsOf(currency) ?? digitsOf(DEFAULT_CURRENCY)!;

/**
 * Converts an amount without a named currency: it came with the digits of the default currency, so
 * 5.00 is 5 yen.
 */
export const inDigitsOf = (minor: bigint, currency: string): bigint =>
  divideHalfEven(minor * 10n ** BigInt(digits(currency)), 10n ** BigInt(digits(DEFAULT_CURRENCY)));

interface Share {
  readonly line: Line;
  left: bigint;
  isReturned: boolean;
  reason: string | null;
}
export interface Spread {
  /** Lines in the order in which they were passed in. */
  readonly lines: readonly Line[];
  /**
   * Refunds without a matching line: another product, another currency, or an order without lines.
   */
  readonly unmet: readonly Refund[];
  /**
   * By currency: the amount by which refunds exceed their lines. It becomes void once the lines are
   * complete.
   */
  readonly excess: ReadonlyMap<string, bigint>;
}

export const byReceipt = (a: Refund, b: Refund): number =>
  a.received_at - b.received_at || (a.event_id < b.event_id ? -1 : 1);
const textOf = ({ product_key, name, event_id }: Line): string => `${product_key}\n${name ?? ""}\n${event_id}`;
const byProduct = (shares: readonly Share[]): readonly Share[] =>
  shares
    .map((share) => ({ share, text: textOf(share.line) }))
    .sort((a, b) => (a.text < b.text ? -1 : 1))
    .map(({ share }) => share);

export const isOfLine = ({ product_key, line_event_id }: Refund): boolean =>
  product_key !== null || line_event_id !== null;
/** True if the event created the line. */
const isOwnEvent = (line: Line, eventId: string): boolean =>
  line.event_id === eventId || refundableIdOf(line) === eventId;
export const namesLine = (refund: Refund, line: Line): boolean =>
  refund.line_event_id !== null
    ? isOwnEvent(line, refund.line_event_id) || line.copied.includes(refund.line_event_id)
    : refund.product_key === null || isSameProduct(refund.product_key, line.product_key) || isStandingTotal(line);

/** It has taken the place of the lines of all products. */
export const isStandingTotal = (line: Line): boolean => line.stands && isTotal(line);

/**
 * False for a refund of a part, without an amount, of a total that stands: what the part was worth
 * is not remembered, and it is not the whole order.
 */
export const isMeasured = ({ amount_minor, product_key, line_event_id }: Refund, line: Line): boolean => {
  if (!isStandingTotal(line) || amount_minor !== null) return true;
  return line_event_id === null ? product_key === null : isOwnEvent(line, line_event_id);
};

/**
 * Returns a function that finds the lines a refund names and can take from. Indexed, because a
 * large order has many lines and refunds.
 */
export const linesNamed = (all: readonly Line[]): ((refund: Refund) => readonly Line[]) => {
  const products = indexOf(all, (line) => [productOf(line.product_key)]);
  const standing = all.filter(isStandingTotal);
  // Few refunds name an event.
  let events: ReadonlyMap<string, readonly Line[]> | undefined;
  return (refund) => {
    const { product_key, line_event_id } = refund;
    if (line_event_id === null && product_key === null) return all;
    if (line_event_id === null)
      return products.get(productOf(product_key!)) ?? standing.filter((line) => isMeasured(refund, line));
    events ??= indexOf(all, (line) => [line.event_id, refundableIdOf(line), ...line.copied]);
    return events.get(line_event_id)?.filter((line) => isMeasured(refund, line)) ?? [];
  };
};

const indexOf = (
  all: readonly Line[],
  namesOf: (line: Line) => readonly string[],
): ReadonlyMap<string, readonly Line[]> => {
  const index = new Map<string, Line[]>();
  for (const line of all)
    for (const name of namesOf(line)) {
      const known = index.get(name);
      if (known === undefined) index.set(name, [line]);
      else if (known.at(-1) !== line) known.push(line);
    }
  return index;
};

const noCopies: ReadonlyMap<Refund, Refund> = new Map();

/**
 * Copies of one refund share a refund_id, but each may name the line in its own way, by product or
 * by event. The first copy counts. A line may also arrive after both copies. Returns each copy with
 * its first.
 */
export const copiesAmong = (
  refunds: readonly Refund[],
  named: (refund: Refund) => readonly Line[],
): ReadonlyMap<Refund, Refund> => {
  if (refunds.every(({ refund_id }) => refund_id === null)) return noCopies;
  const taken = new Map<string, Refund>();
  const copies = new Map<Refund, Refund>();
  for (const refund of [...refunds].sort(byReceipt)) {
    if (refund.refund_id === null || refund.twin_of !== null || !isOfLine(refund)) continue;
    const parts = named(refund).map(({ event_id }) => `${event_id} ${refund.refund_id}`);
    const first = parts.map((part) => taken.get(part)).find((one) => one !== undefined);
    if (first !== undefined) copies.set(refund, first);
    else for (const part of parts) taken.set(part, refund);
  }
  return copies;
};

/** The refund's currency. If it names none, the currency of the line that was received first. */
export const currencyOf = ({ currency }: Refund, lines: readonly Line[]): string | null =>
  currency ??
  lines.reduce<Line | null>((a, b) => (a === null || b.received_at < a.received_at ? b : a), null)?.currency ??
  null;

const takeAll = (share: Share, reason: string): void => {
  if (share.left === 0n && share.isReturned) return;
  share.left = 0n;
  share.isReturned = true;
  share.reason = reason;
};

/** Amounts of the messages about one refund: for the whole order, and for its lines together. */
interface RefundSums {
  whole: bigint;
  ofLines: bigint;
}
const askedIn = ({ whole, ofLines }: RefundSums): bigint => (whole > ofLines ? whole : ofLines);

/** Spreads refunds as one sum over what is left of each line, by largest remainder. */
class RefundSpread {
  readonly unmet: Refund[] = [];
  readonly excess = new Map<string, bigint>();
  readonly #asked = new Map<string, RefundSums>();

  share(refunds: readonly Refund[], over: readonly Share[]): void {
    const sums = new Map<string, { amount: bigint; last: Refund }>();
    for (const refund of refunds) {
      const lines = over.map(({ line }) => line);
      const currency = currencyOf(refund, lines);
      const isMet = refund.amount_minor === null ? lines.length > 0 : lines.some((line) => line.currency === currency);
      if (!isMet || currency === null) this.unmet.push(refund);
      else if (refund.amount_minor === null) this.#takeAll(refund, over);
      else {
        const given = refund.currency === null ? inDigitsOf(refund.amount_minor, currency) : refund.amount_minor;
        const amount = this.#further(refund, currency, given);
        sums.set(currency, { amount: amount + (sums.get(currency)?.amount ?? 0n), last: refund });
      }
    }
    for (const [currency, { amount, last }] of sums)
      this.take(
        currency,
        amount,
        last,
        over.filter(({ line }) => line.currency === currency),
      );
  }

  /** Takes everything that is left. Under the refund's id, the amount taken counts as requested. */
  #takeAll(refund: Refund, over: readonly Share[]): void {
    for (const share of over) {
      this.#further(refund, share.line.currency, share.left);
      takeAll(share, refund.reason);
    }
  }

  /**
   * Returns how much this message adds. A payment provider does not know products: under one
   * refund_id it reports the sum that the shop reports line by line. So the larger of the two sums
   * is what was refunded.
   */
  #further(refund: Refund, currency: string, amount: bigint): bigint {
    if (refund.refund_id === null) return amount;
    const key = `${currency} ${refund.refund_id}`;
    const asked = this.#asked.get(key) ?? { whole: 0n, ofLines: 0n };
    this.#asked.set(key, asked);
    const before = askedIn(asked);
    asked[isOfLine(refund) ? "ofLines" : "whole"] += amount;
    return askedIn(asked) - before;
  }

  take(currency: string, amount: bigint, refund: Refund, over: readonly Share[]): void {
    const room = over.reduce((sum, { left }) => sum + left, 0n);
    const taken = amount < room ? amount : room;
    const parts =
      taken === 0n
        ? over.map(() => 0n)
        : split(
            taken,
            over.map(({ left }) => left),
          );
    if (amount > taken) this.excess.set(currency, amount - taken + (this.excess.get(currency) ?? 0n));
    for (const [n, share] of over.entries()) {
      share.left -= parts[n]!;
      // A line worth nothing has no amount to compare, so naming it is enough to return it.
      if (share.line.value_minor === 0n && isOfLine(refund)) share.isReturned = true;
      if (parts[n]! > 0n) share.reason = refund.reason;
    }
  }
}

const lineOf = ({ line, left, isReturned, reason }: Share): Line => {
  const refunded_minor = line.value_minor - left;
  const is_returned = line.value_minor > 0n ? left === 0n : isReturned;
  return refunded_minor === line.refunded_minor && is_returned === line.is_returned
    ? line
    : { ...line, refunded_minor, is_returned, refund_reason: reason };
};

const closesAt = (lines: readonly Line[]): UnixMs => firstReceiptOf(lines) + COMPLETE_AFTER_MS;
const shareOf = (line: Line, left: bigint): Share => ({
  line,
  left: left > 0n ? left : 0n,
  isReturned: line.is_returned,
  reason: line.refund_reason,
});

/**
 * Spreads all refunds over the lines. Until the lines are complete, this is repeated over all of
 * them: first refunds that name a line, then the others as one sum. A later refund is spread once,
 * over the lines that existed at its time. Only a refund that names a line also finds one that
 * arrives later.
 */
export const spread = (lines: readonly Line[], refunds: readonly Refund[]): Spread => {
  // Nearly all orders have no refunds at all.
  if (refunds.length === 0 && lines.every(({ settled_minor }) => settled_minor === 0n))
    return { lines, unmet: [], excess: new Map() };
  const shares = lines.map((line) => shareOf(line, line.value_minor - line.settled_minor));
  const all = byProduct(shares);
  const closes = closesAt(lines);
  const spreading = new RefundSpread();
  const byLine = new Map(all.map((share) => [share.line, share]));
  const named = linesNamed(all.map(({ line }) => line));
  const namedBy = (refund: Refund): readonly Share[] => named(refund).map((line) => byLine.get(line)!);
  const copies = copiesAmong(refunds, named);
  const counting = refunds.filter((one) => one.twin_of === null && !copies.has(one)).sort(byReceipt);
  const early = counting.filter(({ received_at }) => received_at <= closes);
  for (const refund of early.filter(isOfLine)) spreading.share([refund], namedBy(refund));
  spreading.share(
    early.filter((refund) => !isOfLine(refund)),
    all.filter(({ line }) => line.received_at <= closes),
  );
  for (const refund of counting.slice(early.length)) {
    const isThere = ({ line }: Share): boolean => line.received_at <= refund.received_at;
    spreading.share([refund], isOfLine(refund) ? namedBy(refund) : all.filter(isThere));
  }
  return { lines: shares.map(lineOf), unmet: spreading.unmet, excess: spreading.excess };
};

/**
 * A shortcut for a refund that came last, after the lines were complete. The shares of all other
 * refunds are then fixed. Returns null if the shortcut does not apply.
 */
export const spreadLast = (
  lines: readonly Line[],
  refunds: readonly Refund[],
  last: Refund,
): readonly Line[] | null => {
  if (lines.some(isStandingTotal)) return null;
  const isLast = refunds.every(
    (one) =>
      one === last ||
      (one.received_at < last.received_at && (one.refund_id === null || one.refund_id !== last.refund_id)),
  );
  if (!isLast || last.received_at <= closesAt(lines)) return null;
  const shares = lines.map((line) => shareOf(line, line.value_minor - line.refunded_minor));
  const there = shares.filter(({ line }) =>
    isOfLine(last) ? namesLine(last, line) : line.received_at <= last.received_at,
  );
  new RefundSpread().share([last], byProduct(there));
  return shares.map(lineOf);
};

const isWorthAsBefore = (was: Line, line: Line): boolean =>
  was.value_minor === line.value_minor &&
  was.currency === line.currency &&
  was.settled_minor === line.settled_minor &&
  was.product_key === line.product_key;

/**
 * True if the refunds take the same shares of `lines` as of `before`: no value and no name has
 * changed, no line is gone, and added lines arrived after all refunds and are named by none.
 */
export const isSpreadAlike = (before: readonly Line[], lines: readonly Line[], refunds: readonly Refund[]): boolean => {
  const isNamed = (line: Line): boolean => refunds.some((refund) => isOfLine(refund) && namesLine(refund, line));
  // A total, or its lines, may have left the order with their share.
  if (lines.length < before.length) return false;
  return lines.every((line, n) => {
    const was = before[n];
    if (was === line) return true;
    if (was === undefined)
      return (
        line.received_at > closesAt(before) &&
        refunds.every(({ received_at }) => received_at < line.received_at) &&
        !isNamed(line)
      );
    return (
      isWorthAsBefore(was, line) && (was.copied === line.copied || refunds.every((one) => one.line_event_id === null))
    );
  });
};

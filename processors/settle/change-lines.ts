// Applies the claims of an order to its lines: credit, value, and each line's share of the refunds.
// The rows carry these shares too, so that reports need no second rule.

import type { EventAttributed } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { type Changes, creditAgain, creditLine, takeBack } from "./credit-line.ts";
import { type Line, type OrderState, type Refund, rowOf, rowText } from "./order.ts";
import { isSpreadAlike, spread, spreadLast } from "./spread.ts";

/** A line that a claim has changed or created, before its share of the refunds. */
export interface ChangedLine {
  readonly line: Line;
  readonly row: EventAttributed;
  /** True if the row differs from the one before. */
  readonly isRewritten: boolean;
  readonly takesCredit: boolean;
  /** Why the line's conversion is closed and opened again. Null if it is not. */
  readonly reason: string | null;
}

/**
 * Applies a changed share of the refunds. If the share grew, more is reversed. If it shrank, the
 * conversion is closed and opened again, because a record cannot reverse less than it already has.
 */
const moved = (changes: Changes, before: Line, after: Line): Line => {
  if (after === before || before.status === "open") return after;
  const part = after.refunded_minor - before.refunded_minor;
  if (part < 0n) return creditAgain(changes, before, after, rowOf(after), "refund_spread");
  const isTaken = part > 0n || (after.is_returned && !before.is_returned);
  return isTaken ? takeBack(changes, after, part, after.refund_reason) : after;
};

type Spread = Pick<OrderState, "lines" | "refunds">;
interface Spreadable extends Spread {
  /** The refund that has just arrived, if there is one. */
  readonly added?: Refund | undefined;
  /** The remembered order, if the claim has changed its copies or refunds. */
  readonly before?: Spread;
}

/**
 * Computes the refund shares again only if they may have changed, which is rare for claims of a
 * large order.
 */
const spreadAgain = (order: Spreadable, next: readonly Line[]): readonly Line[] => {
  const { refunds, added, before = order } = order;
  if (added !== undefined) return spreadLast(next, refunds, added) ?? spread(next, refunds).lines;
  const isAlike = before.refunds === refunds && isSpreadAlike(before.lines, next, refunds);
  return isAlike ? next : spread(next, refunds).lines;
};

/** Returns all lines with their refund shares, new lines last. */
export const changeLines = (changes: Changes, order: Spreadable, touched: readonly ChangedLine[]): readonly Line[] => {
  const { lines } = order;
  const before = new Map(lines.map((line) => [line.event_id, line]));
  const by = new Map(touched.map((one) => [one.line.event_id, one]));
  const made = touched.filter(({ line }) => !before.has(line.event_id)).map(({ line }) => line);
  const next = [...lines.map((line) => by.get(line.event_id)?.line ?? line), ...made];
  return spreadAgain(order, next).map((line) => {
    const one = by.get(line.event_id);
    if (one?.takesCredit === true) return creditLine(changes, line, one.row);
    const was = before.get(line.event_id);
    if (was === undefined) return line;
    return one !== undefined && one.reason !== null && was.status !== "open"
      ? creditAgain(changes, was, line, one.row, one.reason)
      : moved(changes, was, line);
  });
};

type Rows = readonly { readonly row: EventAttributed; readonly at: UnixMs }[];

/**
 * Adds the refund shares to the rows that a claim writes. A line whose share changed gets a new row
 * version, unless the claim writes its row anyway.
 */
export const withRefunds = (
  before: OrderState,
  after: OrderState,
  rows: Rows,
): { readonly rows: Rows; readonly state: OrderState } => {
  // Nearly all orders have no refunds at all.
  if (before.refunds.length + after.refunds.length === 0) return { rows, state: after };
  const was = new Map(before.lines.map((line) => [line.event_id, line.refunded_minor]));
  let written = rows;
  const lines = after.lines.map((line): Line => {
    const { event_id, refunded_minor, at } = line;
    if ((was.get(event_id) ?? 0n) === refunded_minor) return line;
    const isOwn = ({ event }: EventAttributed): boolean => event.event_id === event_id;
    const now = rows.findLast(({ row }) => isOwn(row))?.row;
    const known = now ?? rowOf(line);
    const row = { ...known, refunded_minor, version: now === undefined ? known.version + 1 : known.version };
    written =
      now === undefined ? [...written, { row, at }] : written.map((one) => (one.row === now ? { ...one, row } : one));
    return { ...line, row: rowText(row) };
  });
  return { rows: written, state: { ...after, lines } };
};

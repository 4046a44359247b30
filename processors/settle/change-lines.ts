// Brings the lines of an order to what its claims say now: credit, worth, and share of the refunds,
// which their rows say too: reports count by them, and no second rule has to agree.

import type { EventAttributed } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { type Changes, creditAgain, creditLine, takeBack } from "./credit-line.ts";
import { type Line, type OrderState, type Refund, rowOf, rowText } from "./order.ts";
import { isSpreadAlike, spread, spreadLast } from "./spread.ts";

/** A line that a claim has changed or made, before its share of the refunds. */
export interface ChangedLine {
  readonly line: Line;
  readonly row: EventAttributed;
  /** The row is another one than before. */
  readonly isRewritten: boolean;
  readonly takesCredit: boolean;
  /** Why its conversion is closed and opened again; null: it is not. */
  readonly reason: string | null;
}

/** More is taken back, or some of it is given again: a record cannot take less than it took. */
const moved = (changes: Changes, before: Line, after: Line): Line => {
  if (after === before || before.status === "open") return after;
  const part = after.refunded_minor - before.refunded_minor;
  if (part < 0n) return creditAgain(changes, before, after, rowOf(after), "refund_spread");
  const isTaken = part > 0n || (after.is_returned && !before.is_returned);
  return isTaken ? takeBack(changes, after, part, after.refund_reason) : after;
};

type Spread = Pick<OrderState, "lines" | "refunds">;
interface Spreadable extends Spread {
  /** Of the refunds the one that has just come. */
  readonly added?: Refund | undefined;
  /** As it was remembered, where this says more of its copies or refunds by now. */
  readonly before?: Spread;
}

/** Nearly every claim of a large order leaves what refunds took of its lines as it was. */
const spreadAgain = (order: Spreadable, next: readonly Line[]): readonly Line[] => {
  const { refunds, added, before = order } = order;
  if (added !== undefined) return spreadLast(next, refunds, added) ?? spread(next, refunds).lines;
  const isAlike = before.refunds === refunds && isSpreadAlike(before.lines, next, refunds);
  return isAlike ? next : spread(next, refunds).lines;
};

/** All lines, new ones last, as they are once every refund has its part of them. */
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
 * The rows that a claim writes and the order that it leaves, each line whose refunds changed with a
 * row that says so: one that is written anyway, else one version up.
 */
export const withRefunds = (
  before: OrderState,
  after: OrderState,
  rows: Rows,
): { readonly rows: Rows; readonly state: OrderState } => {
  // Nearly every claim is of an order that nothing was ever given back of.
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

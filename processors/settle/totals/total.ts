// An order that is reported as a total and as lines: whether the lines come to the total, how it is
// merged into them, and what is held until a person names which of both stands.

import type { Claim, EventAttributed } from "../../../schemas/generated.ts";
import type { Recorded, UnixMs } from "../../../stream/flow.ts";
import type { ChangedLine } from "../change-lines.ts";
import { MERGE_WINDOW_MS, nextRow, rowOfCopy, withoutGoods } from "../copies/merge-copy.ts";
import { CHANGED_MONEY, type Copy, merged, withCopy } from "../copies/merge-line.ts";
import { orderWordOf, segmentAfter } from "../copies/segment.ts";
import { type Changes, closeLine } from "../credit-line.ts";
import { isGivenToNone, isLead, linesOfWorth, nameOf } from "../match-line.ts";
import {
  DISPUTED_TOTAL,
  happenedAt,
  isCredited,
  isHeldByTotal,
  isTotal,
  isUnnamed,
  type Line,
  type OrderState,
  ownReviewOf,
  refundableIdOf,
  rowOf,
  rowText,
  withClaim,
} from "../order.ts";
import { worthOfLine } from "./worth.ts";

/** The total of an order and its lines, of one name. */
interface TotalWithLines {
  readonly total: Line;
  readonly lines: readonly Line[];
}

/** Null unless the order has both. The leads of a person have no product, so they have no total. */
export const totalWithLinesIn = (all: readonly Line[], name: string | null): TotalWithLines | null => {
  const same = all.filter((line) => line.name === name);
  const total = same.find(isTotal);
  const lines = same.filter((line) => !isTotal(line));
  return total === undefined || lines.length === 0 ? null : { total, lines };
};

const isNear = (a: UnixMs, b: UnixMs): boolean => Math.abs(a - b) <= MERGE_WINDOW_MS;

/**
 * The total with the lines that come to its worth, if all were received within 48 hours of it. One
 * that does not name its product has to be of them, and does not stand for an order.
 */
const metBy = ({ total, lines }: TotalWithLines, receivedAt: UnixMs): TotalWithLines | null => {
  const isSoon = [receivedAt, ...lines.map(({ received_at }) => received_at)].every((at) =>
    isNear(at, total.received_at),
  );
  const met = isSoon && !lines.every(isUnnamed) ? linesOfWorth(lines, worthOfLine(total)) : [];
  return met.length === 0 ? null : { total, lines: met };
};

/** The rows of lines that are now copies of others, each as its next version. */
type MergedRows = readonly { readonly row: EventAttributed; readonly at: UnixMs }[];
const mergedRow = (line: Line, into: string): MergedRows[number] => {
  const row = rowOf(line);
  return { row: { ...rowOfCopy(row, into), version: row.version + 1 }, at: line.at };
};

/** An order whose total and lines were compared, before the changed lines are applied to it. */
export interface Comparison {
  readonly lines: readonly Line[];
  readonly touched: readonly ChangedLine[];
  readonly rows: MergedRows;
}

const appliedTo = (lines: readonly Line[], touched: readonly ChangedLine[]): readonly Line[] => {
  const by = new Map(touched.map(({ line }) => [line.event_id, line]));
  const known = new Set(lines.map(({ event_id }) => event_id));
  return [
    ...lines.map((line) => by.get(line.event_id) ?? line),
    ...touched.flatMap(({ line }) => (known.has(line.event_id) ? [] : [line])),
  ];
};

/**
 * Compares total and lines after a copy, or after a new line (`made`). If the lines come to the
 * total it is merged into them. Otherwise a new line or total is held, with what it disagrees with.
 */
export const compared = (
  changes: Changes,
  order: OrderState,
  touched: readonly ChangedLine[],
  made: Line | null,
): Comparison => {
  const { data, receivedAt } = changes.cause as Recorded<Claim>;
  const same = { lines: order.lines, touched, rows: [] };
  // One line is no total with its lines: nearly all orders have one.
  if (order.lines.length + (made === null ? 0 : 1) < 2) return same;
  const name = nameOf(data);
  const both = isLead(data) ? null : totalWithLinesIn(appliedTo(order.lines, touched), name);
  if (both === null || both.total.stands) return same;
  const isWhole = (order.parts?.absent.get(name) ?? 0) === 0;
  const met = isWhole ? metBy(both, receivedAt) : null;
  if (met !== null) return intoLines(changes, order, met, { touched, isKept: false });
  return made === null ? same : { ...same, touched: disputed(both, touched, made, receivedAt) };
};

/**
 * A line that a person has decided about stays as it is. So does a total of long ago. A line that
 * does not name its product is held by itself, or what comes beside it is.
 */
const disputed = (
  { total, lines }: TotalWithLines,
  touched: readonly ChangedLine[],
  made: Line,
  receivedAt: UnixMs,
): readonly ChangedLine[] => {
  if (isUnnamed(made)) return touched;
  const isTotalMade = made.event_id === total.event_id;
  const named = lines.filter((line) => !isUnnamed(line));
  const isHeldThere = (line: Line): boolean => line.review !== null && !isGivenToNone(line);
  if (isTotalMade && named.length === 0 && lines.every(isHeldThere)) return touched;
  const others = isTotalMade ? named : isNear(receivedAt, total.received_at) ? [total] : [];
  const held = others
    .filter((line) => !line.is_decided && !isHeldByTotal(line))
    .map((line): ChangedLine => {
      const reason = line.review === null ? DISPUTED_TOTAL : null;
      return { line: heldByTotal(line), row: rowOf(line), isRewritten: false, takesCredit: false, reason };
    });
  return [...held, ...touched.map((one) => (one.line === made ? { ...one, line: heldByTotal(made) } : one))];
};
const heldByTotal = (line: Line): Line => ({ ...line, review: DISPUTED_TOTAL, held_for: line.review });

/** Lines without the ones that are gone. Their numbers go on without a gap. */
export const without = (lines: readonly Line[], gone: readonly Line[]): readonly Line[] => {
  const ids = new Set(gone.map(({ event_id }) => event_id));
  const numbers = gone.map(({ number }) => number);
  return lines
    .filter(({ event_id }) => !ids.has(event_id))
    .map((line) => {
      const before = numbers.filter((number) => number < line.number).length;
      return before === 0 ? line : { ...line, number: line.number - before };
    });
};

interface Merging {
  readonly touched: readonly ChangedLine[];
  /** True if a person said that the lines stand. Then nothing of them is held. */
  readonly isKept: boolean;
}

/**
 * Merges the total into the lines, as a copy of all of them: what it earned goes back first, so
 * that a cap has room for the lines, and they are credited again.
 */
export const intoLines = (
  changes: Changes,
  order: OrderState,
  both: TotalWithLines,
  { touched, isKept }: Merging,
): Comparison => {
  const byId = new Map(touched.map((one) => [one.line.event_id, one]));
  const before = order.lines.find(({ event_id }) => event_id === both.total.event_id)!;
  const total = byId.get(before.event_id) ?? unchanged(before);
  closeLine(changes, before, isKept ? LINES_KEPT : TOTAL_MERGED);
  const into = both.lines[0]!.event_id;
  const claimed_by = touched.reduce((all, { row }) => withClaim(all, row), order.claimed_by);
  const merging = { total, order: { ...order, lines: appliedTo(order.lines, touched), claimed_by }, isKept };
  const rest = new Map(without(order.lines, [before]).map((line) => [line.event_id, line]));
  const changed = both.lines.map((line) => {
    const one = byId.get(line.event_id) ?? unchanged(line);
    const number = rest.get(line.event_id)?.number ?? one.line.number - 1;
    const { closes, ...next } = withTotal({ ...one, line: { ...one.line, number } }, merging);
    if (closes !== null && rest.has(line.event_id)) {
      closeLine(changes, rest.get(line.event_id)!, closes);
      rest.set(line.event_id, { ...rest.get(line.event_id)!, status: "open", partner_id: null, campaign_id: null });
    }
    return next;
  });
  const others = touched
    .filter(
      ({ line }) => line.event_id !== before.event_id && !changed.some((one) => one.line.event_id === line.event_id),
    )
    .map((one) => {
      const number = rest.get(one.line.event_id)?.number ?? one.line.number - 1;
      return { ...one, line: { ...one.line, number } };
    });
  return { lines: [...rest.values()], touched: [...others, ...changed], rows: [mergedRow(before, into)] };
};

const TOTAL_MERGED = "total_merged";
const LINES_KEPT = "lines_kept";
const TOTAL_KEPT = "total_kept";

const unchanged = (line: Line): ChangedLine => ({
  ...{ line, row: rowOf(line), isRewritten: false, takesCredit: false, reason: null },
});

/** The total as a copy of each line: it has no product, amount or quantity of one of them. */
const copyOf = ({ line, row }: ChangedLine): Copy => {
  // Its own review goes over to the lines with it, as far as no person has ended that.
  const band = row.fraud.band === "review" ? "ok" : row.fraud.band;
  return {
    row: withoutGoods({ ...row, fraud: { ...row.fraud, band } }),
    ...{ at: happenedAt(line), product_key: "", orderWord: orderWordOf(line.segment_word, row.event) },
  };
};

interface WithTotal {
  readonly total: ChangedLine;
  readonly order: OrderState;
  readonly isKept: boolean;
}

/**
 * A line of the total: the total fills and confirms it like any copy. What a person has decided
 * about the total stands for its lines too. `closes`: the line first goes back from its partner,
 * for this reason.
 */
const withTotal = (
  one: ChangedLine,
  { total, order, isKept }: WithTotal,
): ChangedLine & { readonly closes: string | null } => {
  const { line } = one;
  const isGiven = total.line.is_decided && !line.is_decided;
  const isHeld = isHeldByTotal(line) || ((isKept || isGiven) && line.review !== null);
  // A line that a person has decided about is held by itself alone.
  const review = isKept ? null : (ownReviewOf(line) ?? (line.is_decided ? null : ownReviewOf(total.line)));
  const partner = one.takesCredit ? one.row.credit.partner_id : line.partner_id;
  const isMoved = isGiven && partner !== total.line.partner_id;
  const base: Line = {
    ...line,
    review: isGiven ? null : review,
    held_for: null,
    stands: isKept,
    total_from: total.line.event_id,
    is_decided: line.is_decided || isGiven || (isKept && partner !== null),
    holders: isGiven ? total.line.holders : line.holders,
  };
  // A line that is about to be credited is merged as a credited one, so that it keeps that credit.
  const pending: Line = isMoved
    ? { ...base, status: "open", partner_id: null, campaign_id: null }
    : one.takesCredit
      ? { ...base, status: "credited", partner_id: partner }
      : base;
  const copy = copyOf(total);
  const known = merged(pending, copy, order);
  const credit = isMoved ? total.row.credit : known.row.credit;
  const isRewritten = one.isRewritten || known.isRewritten || isMoved;
  const first = one.isRewritten ? one.row.version : rowOf(line).version + 1;
  const row = isRewritten ? { ...known.row, credit, version: first } : known.row;
  const takesCredit = isMoved ? isCredited({ ...row, credit }) : one.takesCredit || known.takesCredit;
  const kept = isMoved ? pending : line;
  return {
    line: {
      ...known.line,
      ...{ status: kept.status, partner_id: kept.partner_id, campaign_id: kept.campaign_id },
      review: isKept ? null : known.line.review,
      is_decided: base.is_decided || (isKept && takesCredit),
      earns_nothing: takesCredit && !one.takesCredit ? total.line.earns_nothing : line.earns_nothing,
      claimed_by: bothIn(known.line.claimed_by, total.line.claimed_by),
      copied: withCopies(known.line, total.line.copied, order).copied,
      row: isRewritten ? rowText(row) : known.line.row,
    },
    row,
    isRewritten,
    takesCredit,
    reason: isMoved
      ? null
      : isHeld
        ? isKept
          ? LINES_KEPT
          : TOTAL_MERGED
        : (one.reason ?? (isKept && known.reason !== CHANGED_MONEY ? null : known.reason)),
    closes: isMoved && line.status !== "open" ? (total.line.partner_id === null ? "manual" : "reattributed") : null,
  };
};

const bothIn = (a: Line["claimed_by"], b: Line["claimed_by"]): Line["claimed_by"] =>
  a === null ? null : [...new Set([...a, ...(b ?? [])])];

const withCopies = (line: Line, ids: readonly string[], order: OrderState): Line => {
  let known = line;
  for (const id of ids) known = { ...known, copied: withCopy(known, id, order).copied };
  return known;
};

/** The segment of the total once the lines are copies of it. */
const segmentBeside = (total: Line, lines: readonly Line[]): ReturnType<typeof segmentAfter> => {
  const { event } = rowOf(total);
  let known = { product_line: event.product_line, segment_word: total.segment_word };
  for (const line of lines) {
    const { event: copy } = withoutGoods(rowOf(line));
    const first = { ...event, product_line: known.product_line };
    known = segmentAfter(known.segment_word, first, copy, orderWordOf(line.segment_word, rowOf(line).event));
  }
  return known;
};

/**
 * A person said that the total stands: its lines are copies of it, and go back from their partners.
 * If no partner is credited for it, that of its first credited line is.
 */
export const intoTotal = (changes: Changes, order: OrderState, { total, lines }: TotalWithLines): Comparison => {
  for (const line of lines) closeLine(changes, line, TOTAL_KEPT);
  const credited =
    total.partner_id === null && !total.is_decided ? lines.find((line) => line.partner_id !== null) : undefined;
  const before = rowOf(total);
  const { product_line, segment_word } = segmentBeside(total, lines);
  const isOtherSegment = product_line !== before.event.product_line;
  const isRewritten = credited !== undefined || isOtherSegment;
  const credit = credited === undefined ? before.credit : rowOf(credited).credit;
  const row = isRewritten ? { ...nextRow(before, { product_line }), credit } : before;
  // A look-up names a line by its event, a sender by the id that it gave.
  const ids = new Set(lines.flatMap((line) => [line.event_id, refundableIdOf(line), ...line.copied]));
  const rest = without(order.lines, lines);
  const { number } = rest.find(({ event_id }) => event_id === total.event_id)!;
  const line: Line = {
    ...withCopies({ ...total, number, copies: total.copies + lines.length }, [...ids], order),
    ...{ review: null, held_for: null, stands: true, segment_word, row: rowText(row) },
    claimed_by: lines.reduce((all, one) => bothIn(all, one.claimed_by), total.claimed_by),
    is_decided: total.is_decided || total.partner_id !== null || credited !== undefined,
  };
  const isHeld = total.review !== null;
  const one = {
    ...{ line, row, isRewritten, takesCredit: credited !== undefined },
    reason: isHeld ? TOTAL_KEPT : isOtherSegment ? CHANGED_MONEY : null,
  };
  return { lines: rest, touched: [one], rows: lines.map((gone) => mergedRow(gone, total.event_id)) };
};

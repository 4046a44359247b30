// Applies a decision to a line: another partner, no partner, a released or held commission, or more
// fraud reasons on the row.
import type { Decision, EventAttributed } from "../../../schemas/generated.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { changeLines } from "../change-lines.ts";
import { type Changes, closeLine, creditAgain, creditLine, releaseLine } from "../credit-line.ts";
import { meet } from "../match-line.ts";
import {
  DISPUTED_TOTAL,
  isSameProduct,
  isWithoutProduct,
  type Line,
  type OrderState,
  productOf,
  refundableId,
  rowOf,
  rowText,
  type WaitingDecision,
} from "../order.ts";
import { asTheirSales } from "../refund.ts";
import { intoLines, intoTotal, totalWithLinesIn } from "../totals/total.ts";
import { claimsOn, recreditLine, reprocessLine } from "./reprocess.ts";
import { creditByDecision, decideEvent, flagged, lostFor, nextVersion, REJECTED, unattributed } from "./rows.ts";

/**
 * The hold reason when a job that looks at many events suspects fraud. Its findings are on the row.
 */
const HELD = "fraud_review";

interface DecisionResult {
  readonly line: Line;
  /** The line's row with the next version. Null if the row does not change. */
  readonly row: EventAttributed | null;
}

const unheld = (line: Line): Line => ({
  ...line,
  status: "open",
  partner_id: null,
  campaign_id: null,
  is_decided: true,
  earns_nothing: false,
});

/**
 * Reverses the old credit, then adds the new one. If the partner stays the same, so does the line,
 * with all earlier decisions.
 */
const assign = (changes: Changes, line: Line, decision: Decision): DecisionResult => {
  if (line.partner_id === decision.partner_id) return { line: { ...line, is_decided: true }, row: null };
  if (line.partner_id !== null && decision.kind === "assign") return { line, row: null };
  const before = rowOf(line);
  const row = nextVersion(before, { credit: creditByDecision(before.credit, decision) });
  closeLine(changes, line, "reattributed");
  // A credit to another partner does not say which of total and lines is to be paid.
  const review = line.review === DISPUTED_TOTAL ? DISPUTED_TOTAL : null;
  const open: Line = { ...line, review, held_for: null, is_decided: true, earns_nothing: false, row: rowText(row) };
  const given = creditLine(changes, open, row);
  return { line: given, row };
};

const unassign = (changes: Changes, line: Line, decision: Decision): DecisionResult => {
  if (line.partner_id === null) return { line: unheld(line), row: null };
  const before = rowOf(line);
  const row = nextVersion(before, { credit: unattributed(before.credit, decision.decision_id, lostFor(decision)) });
  closeLine(changes, line, lostFor(decision));
  return { line: { ...unheld(line), row: rowText(row) }, row };
};

const release = (changes: Changes, line: Line, decision: Decision): DecisionResult => {
  // What else it was held for ends. The total and the lines stay held until one of them is kept.
  if (line.review === DISPUTED_TOTAL) return { line: { ...line, held_for: null }, row: null };
  if (line.review === null) return { line, row: null };
  if (line.partner_id === null) return { line: { ...line, review: null }, row: null };
  // If everything was refunded, nothing is held. Should the line regain a value, it will not be
  // under review.
  const released = line.status === "credited" ? releaseLine(changes, line, decision.reason) : { ...line, review: null };
  return { line: { ...released, is_decided: true }, row: null };
};

/** A person's decision has precedence: a later finding is written to the row but moves no money. */
const flag = (changes: Changes, line: Line, decision: Decision): DecisionResult => {
  const before = rowOf(line);
  const fraud = flagged(before.fraud, decision);
  if (fraud === before.fraud) return { line, row: null };
  const row = nextVersion(before, { fraud });
  const kept: Line = { ...line, row: rowText(row) };
  if (line.is_decided || fraud.band === "ok") return { line: kept, row };
  if (fraud.band === "reject") {
    if (line.partner_id === null) return { line: unheld(kept), row };
    const lost = nextVersion(before, { fraud, credit: unattributed(before.credit, decision.decision_id, REJECTED) });
    closeLine(changes, line, REJECTED);
    return { line: { ...unheld(kept), row: rowText(lost) }, row: lost };
  }
  // The row was under review before, and a person has released it: this finding adds too little.
  if (fraud.score < decision.review_from) return { line: kept, row };
  if (line.review === DISPUTED_TOTAL) return { line: { ...kept, held_for: line.held_for ?? HELD }, row };
  if (line.review !== null) return { line: kept, row };
  const held: Line = { ...kept, review: HELD };
  return { line: line.partner_id === null ? held : creditAgain(changes, line, held, row, HELD), row };
};

/** More decisions about one line are a quarrel, and only its end counts. */
const MOST_HOLDERS = 20;

/** Notes who holds the line after the decision, if the decision has set it. */
const withHolder = (before: Line, after: Line, { decision_id }: Decision): Line => {
  const { is_decided, partner_id } = after;
  if (!is_decided) return after.holders.length === 0 ? after : { ...after, holders: [] };
  if (before.is_decided && before.partner_id === partner_id) return after;
  return { ...after, holders: [...after.holders, { decision_id, partner_id }].slice(-MOST_HOLDERS) };
};

export const decideLine = (changes: Changes, line: Line, decision: Decision): DecisionResult => {
  const decided = decidedBy(changes, line, decision);
  return decided.line === line ? decided : { ...decided, line: withHolder(line, decided.line, decision) };
};

const decidedBy = (changes: Changes, line: Line, decision: Decision): DecisionResult => {
  switch (decision.kind) {
    case "assign":
    case "reattribute":
      return assign(changes, line, decision);
    case "take_back":
    case "reject":
      return unassign(changes, line, decision);
    case "release":
      return release(changes, line, decision);
    case "flag":
      return flag(changes, line, decision);
    case "reprocess":
      return reprocessLine(changes, line, decision);
    case "recredit":
      return recreditLine(changes, line);
  }
};

/**
 * True for decisions about the partner of an order. They also apply to lines that arrive later. A
 * release or a finding only applies to the lines that exist.
 */
const isForAll = ({ kind }: Decision): boolean =>
  kind === "assign" || kind === "reattribute" || kind === "take_back" || kind === "reject";

/**
 * Applies waiting decisions to a new line, in the order in which they were made. `rows` are the new
 * versions of its row; `decisions` are the same ones, some of them taken now.
 */
export const decideWaiting = (
  changes: Changes,
  line: Line,
  waiting: readonly WaitingDecision[],
  isLead: boolean,
): {
  readonly line: Line;
  readonly rows: readonly EventAttributed[];
  readonly decisions: readonly WaitingDecision[];
} => {
  const rows: EventAttributed[] = [];
  const decisions: WaitingDecision[] = [];
  let decided = line;
  for (const asked of waiting) {
    const { product_key, decision } = asked;
    const isConcerned = !asked.is_taken && isAbout(asked, line, isLead);
    const isTaken = isConcerned && !(product_key === null && isForAll(decision));
    decisions.push(isTaken ? { ...asked, is_taken: true } : asked);
    if (!isConcerned) continue;
    const { line: next, row } = decideLine({ ...changes, decisionId: decision.decision_id }, decided, decision);
    decided = next;
    if (row !== null) rows.push(row);
  }
  return { line: decided, rows, decisions };
};

/**
 * Leads of one person have no product to tell them apart, so a decision must name the event of the
 * lead.
 */
export const isAbout = ({ product_key, name, event_id }: WaitingDecision, line: Line, isLead: boolean): boolean =>
  product_key === null ||
  event_id === line.event_id ||
  (!isLead && isSameProduct(product_key, line.product_key) && name === line.name);

/**
 * A reprocess or recredit was computed for an existing line, so it cannot wait for a missing one.
 */
const canWait = ({ kind }: Decision): boolean => kind !== "reprocess" && kind !== "recredit";

type Rows = readonly { readonly row: EventAttributed; readonly at: UnixMs }[];

/**
 * The lines that the named event created or is a copy of. A copy of the whole order belongs to
 * every line.
 */
const linesAbout = (
  { cause }: Changes,
  { event_id, product_key }: WaitingDecision,
  order: OrderState,
): readonly Line[] => {
  // Copies of pages are remembered by the id that their sender gave.
  const named = [event_id ?? "", refundableId(cause.data.attributed.event)];
  const made = order.lines.filter((line) => line.event_id === event_id || named.some((id) => line.copied.includes(id)));
  if (made.length > 0) return made;
  // Leads are matched by their own time, not by the time of the decision.
  const at = Math.min(cause.data.attributed.event.ts, cause.receivedAt);
  const met = meet({ ...cause, at }, order);
  if (met.kind === "copy_of_all") return met.lines;
  if (met.kind === "new") return [];
  // A decision that names a product alone does not mean a sale without one: it waits for its line.
  const isNamed = product_key !== null && productOf(product_key) !== "";
  const isOther = isWithoutProduct(met.line) && isNamed && cause.data.attributed.event.value_minor === null;
  return isOther ? [] : [met.line];
};

/**
 * Applies a new decision to its lines. If there are none yet, the decision waits, as a refund does.
 */
export const decideOrder = (
  changes: Changes,
  asked: WaitingDecision,
  order: OrderState,
): { readonly rows: Rows; readonly state: OrderState } => {
  const { decision, product_key } = asked;
  if (decision.scope === "event") return decideOther(changes, decision, order);
  // Of other holds, such a release says nothing.
  if (decision.keep != null) return keep(changes, asked, order) ?? { rows: [], state: order };
  const rows: { readonly row: EventAttributed; readonly at: UnixMs }[] = [];
  const about = new Set(product_key === null ? order.lines : linesAbout(changes, asked, order));
  const lines = order.lines.map((line) => {
    if (!about.has(line)) return line;
    const { line: next, row } = decideLine(changes, line, decision);
    if (row !== null) rows.push({ row, at: line.at });
    return next;
  });
  const claimed_by = decision.kind === "reprocess" ? claimsOn(lines, order.claimed_by) : order.claimed_by;
  const waits = (about.size === 0 && canWait(decision)) || (product_key === null && isForAll(decision));
  return {
    rows,
    state: { ...order, lines, claimed_by, decisions: waits ? [...order.decisions, asked] : order.decisions },
  };
};

/**
 * A release that names which of a total and its lines stands. The others are copies of it from then
 * on. Null if the order has not both.
 */
const keep = (
  changes: Changes,
  { name, product_key, decision }: WaitingDecision,
  order: OrderState,
): { readonly rows: Rows; readonly state: OrderState } | null => {
  const names = product_key === null ? [...new Set(order.lines.map((line) => line.name))] : [name];
  const both = names.map((one) => totalWithLinesIn(order.lines, one)).find((one) => one !== null && !one.total.stands);
  if (both == null) return null;
  const { lines, touched, rows } =
    decision.keep === "total"
      ? intoTotal(changes, order, both)
      : intoLines(changes, order, both, { touched: [], isKept: true });
  const changed = changeLines(changes, { lines, refunds: order.refunds, before: order }, touched);
  const taken = asTheirSales(order.refunds, changed, null);
  const written = touched.flatMap(({ line, row, isRewritten }) => (isRewritten ? [{ row, at: line.at }] : []));
  return { rows: [...written, ...rows, ...taken.rows], state: { ...order, lines: changed, refunds: taken.refunds } };
};

/**
 * Decides about an event that has no line. The first decision brings the event's row. Later ones
 * continue from the last written row, so that versions have no gap and only one author.
 */
const decideOther = (
  { cause }: Changes,
  decision: Decision,
  order: OrderState,
): { readonly rows: Rows; readonly state: OrderState } => {
  const { attributed } = cause.data;
  const { event_id, ts } = attributed.event;
  const known = order.events.find((event) => event.event_id === event_id);
  const row = decideEvent(known === undefined ? attributed : rowOf(known), decision, attributed);
  if (row === null) return { rows: [], state: order };
  const events = [...order.events.filter((event) => event !== known), { event_id, row: rowText(row) }];
  return { rows: [{ row, at: Math.min(ts, cause.receivedAt) }], state: { ...order, events } };
};

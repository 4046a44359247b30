// What a decision makes of a line: another partner, none, a commission that is released or held, a
// row with more fraud reasons.
import type { Decision, EventAttributed } from "../../../schemas/generated.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { type Changes, closeLine, creditAgain, creditLine, releaseLine } from "../credit-line.ts";
import { meet } from "../match-line.ts";
import { type Line, type OrderState, rowOf, rowText, type WaitingDecision } from "../order.ts";
import { claimsOn, recreditLine, reprocessLine } from "./reprocess.ts";
import { creditByDecision, decideEvent, flagged, lostFor, nextVersion, REJECTED, unattributed } from "./rows.ts";

/** A commission that a finding of many events took; the reasons stand on the row. */
const HELD = "fraud_review";

interface DecisionResult {
  readonly line: Line;
  /** The line's row, one version up; null when it stays as it is. */
  readonly row: EventAttributed | null;
}

const unheld = (line: Line): Line => ({
  ...line,
  status: "open",
  partner_id: null,
  campaign_id: null,
  is_decided: true,
});

/**
 * Reverses the old credit, then adds the new one; the same partner keeps the line, and what was
 * decided about it before.
 */
const assign = (changes: Changes, line: Line, decision: Decision): DecisionResult => {
  if (line.partner_id === decision.partner_id) return { line: { ...line, is_decided: true }, row: null };
  if (line.partner_id !== null && decision.kind === "assign") return { line, row: null };
  const before = rowOf(line);
  const row = nextVersion(before, { credit: creditByDecision(before.credit, decision) });
  closeLine(changes, line, "reattributed");
  const given = creditLine(changes, { ...line, review: null, is_decided: true, row: rowText(row) }, row);
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
  if (line.review === null) return { line, row: null };
  if (line.partner_id === null) return { line: { ...line, review: null }, row: null };
  // All of it was given back, so nothing is held; should the line be worth something again, it is
  // so without a review.
  const released = line.status === "credited" ? releaseLine(changes, line, decision.reason) : { ...line, review: null };
  return { line: { ...released, is_decided: true }, row: null };
};

/** What a person has decided stands: a finding is then written on the row and moves no money. */
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
  if (line.review !== null) return { line: kept, row };
  const held: Line = { ...kept, review: HELD };
  return { line: line.partner_id === null ? held : creditAgain(changes, line, held, row, HELD), row };
};

const decideLine = (changes: Changes, line: Line, decision: Decision): DecisionResult => {
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
 * Who is credited for an order is decided for all of it, also for lines that come late; a review is
 * released, or found, on what is there.
 */
const isForAll = ({ kind }: Decision): boolean =>
  kind === "assign" || kind === "reattribute" || kind === "take_back" || kind === "reject";

/**
 * A line that has just come: decisions that wait for it are applied in the order in which they
 * came. `rows`: its further versions; `decisions`: what goes on waiting.
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
    const isConcerned = isAbout(asked, line, isLead);
    if (!isConcerned || (product_key === null && isForAll(decision))) decisions.push(asked);
    if (!isConcerned) continue;
    const { line: next, row } = decideLine({ ...changes, decisionId: decision.decision_id }, decided, decision);
    decided = next;
    if (row !== null) rows.push(row);
  }
  return { line: decided, rows, decisions };
};

/** The leads of one person have no product that tells them apart: only the event that made each. */
const isAbout = ({ product_key, name, event_id }: WaitingDecision, line: Line, isLead: boolean): boolean =>
  product_key === null ||
  event_id === line.event_id ||
  (!isLead && product_key === line.product_key && name === line.name);

/** What was computed of a line says nothing about one that is not there. */
const canWait = ({ kind }: Decision): boolean => kind !== "reprocess" && kind !== "recredit";

type Rows = readonly { readonly row: EventAttributed; readonly at: UnixMs }[];

/** The line that its event made, or is a copy of: of every line, where it is one of the order. */
const linesAbout = ({ cause }: Changes, { event_id }: WaitingDecision, order: OrderState): readonly Line[] => {
  const made = order.lines.filter((line) => line.event_id === event_id || line.copied.includes(event_id ?? ""));
  if (made.length > 0) return made;
  // A lead is near others in its own time, not in that of the decision.
  const at = Math.min(cause.data.attributed.event.ts, cause.receivedAt);
  const met = meet({ ...cause, at }, order);
  if (met.kind === "copy_of_all") return met.lines;
  return met.kind === "copy" ? [met.line] : [];
};

/**
 * A decision that has just come: applied to the lines it is about. Where there is none yet it
 * waits, as a refund does.
 */
export const decideOrder = (
  changes: Changes,
  asked: WaitingDecision,
  order: OrderState,
): { readonly rows: Rows; readonly state: OrderState } => {
  const { decision, product_key } = asked;
  if (decision.scope === "event") return decideOther(changes, decision, order);
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
 * The first decision brings the event's bytes; from then on what was last written counts, so that
 * versions have no gap and no second author.
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

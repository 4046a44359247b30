// Recomputes a line or another event with today's code and rules: a new version of its row, and its
// credit moved accordingly.
import type { Credit, Decision, EventAttributed } from "../../../schemas/generated.ts";
import { type Changes, closeLine, creditLine } from "../credit-line.ts";
import { type Line, rowOf, rowText } from "../order.ts";

const REASON = "reprocessed";

/** True if a person or a job over many events has decided about the credit. */
const isDecided = ({ candidates }: Credit): boolean => candidates.some(({ method }) => method === "decision");

export const isSameSet = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((one) => b.includes(one));

/**
 * The partners who claim an order after its lines were recomputed. A line that does not know its
 * claims keeps the earlier ones.
 */
export const claimsOn = (lines: readonly Line[], before: readonly number[]): readonly number[] => [
  ...new Set(lines.flatMap(({ claimed_by }) => claimed_by ?? before)),
];

/**
 * True if a decision that moves no money would close a conversion that earns, and open another one:
 * for another partner or campaign, or under review. Such a line stays as it is, also one that was
 * given back (docs/design/money.md, rule 24).
 */
export const isLeftToRecalc = (
  line: Pick<Line, "partner_id" | "campaign_id" | "review" | "earns_nothing">,
  next: Pick<Line, "partner_id" | "campaign_id" | "review">,
): boolean =>
  line.partner_id !== null &&
  !line.earns_nothing &&
  (next.partner_id !== line.partner_id || next.campaign_id !== line.campaign_id || next.review !== line.review);

/**
 * The claim carries the row as computed today and the version that it was computed from. If the
 * line has changed since, the claim has no effect. A person's decision stays, unless this decision
 * overrides it. The old credit is reversed, then the new one is added (law M7).
 */
export const reprocessLine = (
  changes: Changes,
  line: Line,
  decision: Decision,
): { readonly line: Line; readonly row: EventAttributed | null } => {
  const today = changes.cause.data.attributed;
  const before = rowOf(line);
  if (today.version !== before.version) return { line, row: null };
  const stands = line.is_decided && !decision.overrides;
  const credit = stands ? before.credit : today.credit;
  const review = stands ? line.review : decision.review;
  const claimed_by = stands ? line.claimed_by : decision.claimed_by;
  const isClaimedAlike = stands || line.claimed_by === null || isSameSet(line.claimed_by, decision.claimed_by);
  const { partner_id, campaign_id } = credit;
  if (!decision.recalculates && isLeftToRecalc(line, { partner_id, campaign_id, review })) return { line, row: null };
  const same: EventAttributed = { ...before, enrichment: today.enrichment, fraud: today.fraud, credit };
  if (rowText(same) === line.row && review === line.review && isClaimedAlike) return { line, row: null };
  const row: EventAttributed = { ...same, version: before.version + 1 };
  const kept: Line = { ...line, review, claimed_by, is_decided: stands, row: rowText(row) };
  const isMoved = partner_id !== line.partner_id || campaign_id !== line.campaign_id;
  const isHeldOtherwise = line.partner_id !== null && review !== line.review;
  if (!isMoved && !isHeldOtherwise) return { line: kept, row };
  closeLine(changes, line, REASON);
  const open: Line = { ...kept, status: "open", partner_id: null, campaign_id: null, earns_nothing: false };
  if (partner_id === null) return { line: open, row };
  const earns_nothing = isMoved ? !decision.recalculates : line.earns_nothing;
  return { line: creditLine(changes, { ...open, earns_nothing }, row), row };
};

/**
 * Reverses the commission and earns it again under the contract as known now. Credit and row stay
 * the same.
 */
export const recreditLine = (changes: Changes, line: Line): { readonly line: Line; readonly row: null } => {
  if (line.status !== "credited") return { line, row: null };
  closeLine(changes, line, REASON);
  return { line: creditLine(changes, { ...line, earns_nothing: false }, rowOf(line)), row: null };
};

/**
 * Recomputes an event that has no line. `row` is the last written row, or the claim's own if
 * nothing was decided about the event before.
 */
export const reprocessEvent = (
  row: EventAttributed,
  decision: Decision,
  today: EventAttributed,
): EventAttributed | null => {
  if (today.version !== row.version) return null;
  const stands = isDecided(row.credit) && !decision.overrides;
  return {
    ...row,
    enrichment: today.enrichment,
    fraud: today.fraud,
    credit: stands ? row.credit : today.credit,
    version: row.version + 1,
  };
};

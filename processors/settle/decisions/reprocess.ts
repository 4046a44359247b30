// What today's code and rules make of a line or of another event: a further version of its row, and
// its credit moved where it belongs.
import type { Credit, Decision, EventAttributed } from "../../../schemas/generated.ts";
import { type Changes, closeLine, creditLine } from "../credit-line.ts";
import { type Line, rowOf, rowText } from "../order.ts";

const REASON = "reprocessed";

/** By a person, or by a job that looks at many events. */
const isDecided = ({ candidates }: Credit): boolean => candidates.some(({ method }) => method === "decision");

export const isSameSet = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((one) => b.includes(one));

/**
 * Who claims an order once what claims its lines was computed again; what lines do not know of
 * themselves stays.
 */
export const claimsOn = (lines: readonly Line[], before: readonly number[]): readonly number[] => [
  ...new Set(lines.flatMap(({ claimed_by }) => claimed_by ?? before)),
];

/**
 * The claim carries the row as it is made today, under the version that it was computed against:
 * where anything else has changed the line since, it says nothing any more. What a person has
 * decided stands, unless the decision overrides it. The old credit is reversed, then the new one
 * added (law M7).
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
  const same: EventAttributed = { ...before, enrichment: today.enrichment, fraud: today.fraud, credit };
  if (rowText(same) === line.row && review === line.review && isClaimedAlike) return { line, row: null };
  const row: EventAttributed = { ...same, version: before.version + 1 };
  const kept: Line = { ...line, review, claimed_by, is_decided: stands, row: rowText(row) };
  const isMoved = credit.partner_id !== line.partner_id || credit.campaign_id !== line.campaign_id;
  const isHeldOtherwise = line.partner_id !== null && review !== line.review;
  if (!isMoved && !isHeldOtherwise) return { line: kept, row };
  closeLine(changes, line, REASON);
  const open: Line = { ...kept, status: "open", partner_id: null, campaign_id: null };
  return { line: credit.partner_id === null ? open : creditLine(changes, open, row), row };
};

/**
 * Its commission is taken back and earned again, with the contract as it is known now; who is
 * credited stays, and so does the row.
 */
export const recreditLine = (changes: Changes, line: Line): { readonly line: Line; readonly row: null } => {
  if (line.status !== "credited") return { line, row: null };
  closeLine(changes, line, REASON);
  return { line: creditLine(changes, line, rowOf(line)), row: null };
};

/**
 * Of an event that is no line: `row` as it was last written, or as the claim brings it when nothing
 * has been decided about it yet.
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

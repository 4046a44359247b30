// Settles an order again as if its events had been read today: the lines of the loaded claims, upon
// what settle remembers of the time before them.
import { isAbout } from "../../../../processors/settle/decisions/decide.ts";
import { isLead } from "../../../../processors/settle/match-line.ts";
import {
  DISPUTED_TOTAL,
  earningClaims,
  emptyOrder,
  type Line,
  type OrderState,
  type Refund,
  type WaitingDecision,
} from "../../../../processors/settle/order.ts";
import { settle } from "../../../../processors/settle/settle.ts";
import { spread } from "../../../../processors/settle/spread.ts";
import type { Claim, Decision, EventAttributed } from "../../../../schemas/generated.ts";
import type { Recorded } from "../../../../stream/flow.ts";

/**
 * Decisions made by a person. A job's findings are not among them: they are facts about the order,
 * independent of the credit.
 */
const byPeople: ReadonlySet<string> = new Set(["assign", "reattribute", "take_back", "release", "reject"]);
const computed: ReadonlySet<string> = new Set(["reprocess", "recredit"]);

/** Partners to whom copies of the line were credited. */
export const claimsOf = ({ claimed_by, partner_id }: Line): readonly number[] =>
  claimed_by ?? (partner_id === null ? [] : [partner_id]);

/** Those whose claim may still earn, and so holds that of another partner. */
export const holdingClaimsOf = (line: Line): readonly number[] => earningClaims(line) ?? claimsOf(line);

/** By event id: the claims that still hold others, of the lines of which not all do. */
type LeftClaims = ReadonlyMap<string, readonly number[]>;
const nothingEnded: LeftClaims = new Map();

const endedIn = ({ lines }: OrderState): LeftClaims => {
  const ended = lines.filter((line) => earningClaims(line) !== line.claimed_by);
  return ended.length === 0 ? nothingEnded : new Map(ended.map((line) => [line.event_id, holdingClaimsOf(line)]));
};

/**
 * True for an order whose totals and amounts cannot be set back to how the loaded claims met them:
 * a total that came before them is gone, and so is the amount that a loaded copy replaced behind
 * another loaded claim. Such an order, and one where a person said what stands, stays as it is.
 */
export const isLeftAlone = ({ lines }: OrderState, claims: readonly Recorded<Claim>[]): boolean => {
  const made = new Set(claims.map(({ id }) => id));
  const isBehindOthers = (eventId: string): boolean => claims.findIndex(({ id }) => id === eventId) > 0;
  return lines.some(({ event_id, stands, total_from, amended_by, review }) => {
    if (stands || (total_from !== null && !made.has(total_from))) return true;
    if (made.has(event_id)) return false;
    return total_from !== null || review === DISPUTED_TOTAL || (amended_by !== null && isBehindOthers(amended_by));
  });
};

export interface SettledAgain {
  readonly state: OrderState;
  /** By event id of a line: what had ended when it was credited, and so did not hold it. */
  readonly endedBefore: (eventId: string) => LeftClaims;
}

/** Claims that are computed again, by their ids. */
type ClaimsById = ReadonlyMap<string, Claim>;

/** The line as it was before the decisions that are computed again. */
const withoutDecisions = (line: Line, again: ClaimsById): Line => {
  const holders = line.holders.filter(({ decision_id }) => !again.has(decision_id));
  if (holders.length === line.holders.length) return line;
  // A line that no decision has set belongs to the first partner who claimed it.
  const partner_id = holders.length > 0 ? holders.at(-1)!.partner_id : (claimsOf(line)[0] ?? null);
  // A release sets only a line that was held.
  const isReleased = line.holders.some(({ decision_id }) => again.get(decision_id)?.decision?.kind === "release");
  const review = isReleased ? (line.review ?? HELD_BEFORE) : line.review;
  return { ...line, holders, partner_id, is_decided: holders.length > 0, review };
};
/** For what a released line was held is not remembered; the release comes again. */
const HELD_BEFORE = "held";

/** The refund as it was before the claims that are computed again. */
const heldAgain = (refund: Refund, again: ClaimsById): Refund =>
  refund.was_twin !== null && again.has(refund.was_twin.until)
    ? { ...refund, twin_of: refund.was_twin.of, was_twin: null }
    : refund;

/** The lines as these refunds left them, without later ones, and without lines that came later. */
const givenBack = (lines: readonly Line[], refunds: readonly Refund[]): readonly Line[] => {
  const unspread = lines.map((line) => ({
    ...line,
    refunded_minor: line.settled_minor,
    is_returned: line.value_minor > 0n && line.settled_minor === line.value_minor,
  }));
  return spread(unspread, refunds).lines.map((line) => ({
    ...line,
    status: line.partner_id === null ? "open" : line.is_returned ? "reversed" : "credited",
  }));
};

/**
 * Returns the order as it was before the loaded claims: earlier lines, which are not computed
 * again, earlier refunds and earlier decisions. A decision that has waited for a line which is
 * computed again waits for it again.
 */
const standingIn = (
  { lines, refunds, decisions }: OrderState,
  claims: readonly Recorded<Claim>[],
  isLeftOut: (decision: Decision) => boolean,
  isClaimLeftOut: (claim: Recorded<Claim>) => boolean,
): OrderState => {
  const made = new Set(claims.map(({ id, data }) => (data.kind === "refund" ? data.attributed.event.event_id : id)));
  const again = new Map(claims.flatMap((claim) => (isClaimLeftOut(claim) ? [] : [[claim.id, claim.data] as const])));
  const isOfLeads = claims.some(({ data }) => isLead(data));
  const earlier = refunds.filter(({ event_id }) => !made.has(event_id)).map((one) => heldAgain(one, again));
  const left = lines.filter(({ event_id }) => !made.has(event_id)).map((line) => withoutDecisions(line, again));
  const isTaken = (asked: WaitingDecision): boolean =>
    asked.is_taken && left.some((line) => isAbout(asked, line, isOfLeads));
  return {
    ...emptyOrder,
    lines: givenBack(left, earlier),
    refunds: earlier,
    decisions: decisions
      .filter(({ decision }) => !made.has(decision.decision_id) && !isLeftOut(decision))
      .map((asked) => ({ ...asked, is_taken: isTaken(asked) })),
    claimed_by: [...new Set(left.flatMap(claimsOf))],
  };
};

/** Settles an order as if its events had been read today. */
export const settledAgain = (
  claims: readonly Recorded<Claim>[],
  standing: OrderState | undefined,
  rowOfToday: (eventId: string) => EventAttributed | undefined,
  hasDecisions: boolean,
): SettledAgain => {
  // An undo says nothing of the credit: what the file said is no word of the order.
  const isLeftOut = ({ kind, withdraws }: Decision): boolean =>
    computed.has(kind) || (!hasDecisions && byPeople.has(kind) && withdraws !== true);
  // What a person says of a refund is about no partner.
  const isClaimLeftOut = ({ data: { decision, attributed } }: Recorded<Claim>): boolean =>
    decision !== null && isLeftOut(decision) && attributed.event.t !== "refund";
  let state = standing === undefined ? emptyOrder : standingIn(standing, claims, isLeftOut, isClaimLeftOut);
  const judged = new Map<string, LeftClaims>();
  for (const claim of claims) {
    const { kind } = claim.data;
    if (isClaimLeftOut(claim)) continue;
    const today = kind === "conversion" ? rowOfToday(claim.id) : undefined;
    const read: Recorded<Claim> =
      today === undefined ? claim : { ...claim, data: { ...claim.data, attributed: today } };
    const outcome = settle(read, state, null);
    if (outcome.kind !== "emit") continue;
    if (kind === "conversion") {
      const ended = endedIn(state);
      for (const { event_id, partner_id } of outcome.state.lines)
        if (partner_id !== null && !judged.has(event_id)) judged.set(event_id, ended);
    }
    state = outcome.state;
  }
  return { state, endedBefore: (eventId) => judged.get(eventId) ?? nothingEnded };
};

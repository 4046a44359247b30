// The rows that decisions leave: who is credited now and who lost, and which findings of fraud were
// added.
import type { Credit, Decision, EventAttributed, Fraud } from "../../../schemas/generated.ts";
import { reprocessEvent } from "./reprocess.ts";

const highestScore = 100;
/** Why a credit was lost to a finding of many events; the reasons stand on the row. */
export const REJECTED = "fraud_rejected";

/**
 * Who won before a decision lost to it; an outcome beside the closed reasons of an unattributed
 * event.
 */
const OVERRULED = "overruled";

/** The newest decisions a row names; all of them lie in the log of claims. */
const MOST_DECISIONS = 20;

/** Who contended stays, in this order; the oldest decisions beyond the bound do not. */
const withDecision = ({ candidates }: Credit, decision: Credit["candidates"][number]): Credit["candidates"] => {
  const decisions = candidates.filter(({ method }) => method === "decision");
  const forgotten = new Set(decisions.slice(0, Math.max(0, decisions.length + 1 - MOST_DECISIONS)));
  const kept = candidates.filter((candidate) => !forgotten.has(candidate));
  return [
    ...kept.map((candidate) => (candidate.outcome === "won" ? { ...candidate, outcome: OVERRULED } : candidate)),
    decision,
  ];
};

/** Names the decision, so that an explanation of the event finds it. */
export const creditByDecision = (before: Credit, { decision_id, partner_id, campaign_id }: Decision): Credit => ({
  ...before,
  status: "attributed",
  method: "decision",
  reason: null,
  partner_id,
  campaign_id,
  link_id: null,
  rule_id: null,
  rule_version: null,
  candidates: withDecision(before, {
    method: "decision",
    reference: decision_id,
    partner_id,
    campaign_id,
    outcome: "won",
  }),
});

export const unattributed = (before: Credit, decisionId: string, reason: string): Credit => ({
  ...before,
  status: "unattributed",
  method: null,
  reason,
  partner_id: null,
  campaign_id: null,
  link_id: null,
  rule_id: null,
  rule_version: null,
  candidates: withDecision(before, {
    method: "decision",
    reference: decisionId,
    partner_id: null,
    campaign_id: null,
    outcome: reason,
  }),
});

/** The score with the decision's reasons, each code once; the same one when none is new. */
export const flagged = (before: Fraud, { flags, review_from, reject_from }: Decision): Fraud => {
  const added = flags.filter(({ code }) => !before.reasons.some((known) => known.code === code));
  if (added.length === 0) return before;
  const reasons = [...before.reasons, ...added];
  const score = Math.min(
    highestScore,
    reasons.reduce((sum, { weight }) => sum + weight, 0),
  );
  const found = score >= reject_from ? "reject" : score >= review_from ? "review" : "ok";
  // Reasons are only added, so a band never falls, whatever the client's lines have become since.
  return {
    score,
    band: found === "ok" || before.band === "reject" ? before.band : found,
    reasons,
    hints: before.hints,
  };
};

/**
 * Of the closed reasons of an unattributed event; the words of the person who decided stay with the
 * decision.
 */
export const lostFor = ({ kind }: Decision): string => (kind === "reject" ? REJECTED : "manual");

export const nextVersion = (
  row: EventAttributed,
  over: Partial<Pick<EventAttributed, "credit" | "fraud">>,
): EventAttributed => ({
  ...row,
  ...over,
  version: row.version + 1,
});

/**
 * A row of an event that is no claim: no money hangs on it. Null when the decision changes nothing.
 */
export const decideEvent = (
  row: EventAttributed,
  decision: Decision,
  today: EventAttributed,
): EventAttributed | null => {
  const { credit } = row;
  const isHeldBySomebody = credit.partner_id !== null;
  switch (decision.kind) {
    case "assign":
    case "reattribute":
      if (credit.partner_id === decision.partner_id || (isHeldBySomebody && decision.kind === "assign")) return null;
      return nextVersion(row, { credit: creditByDecision(credit, decision) });
    case "take_back":
    case "reject":
      return isHeldBySomebody
        ? nextVersion(row, { credit: unattributed(credit, decision.decision_id, lostFor(decision)) })
        : null;
    case "release":
    case "recredit":
      return null;
    case "reprocess":
      return reprocessEvent(row, decision, today);
    case "flag": {
      const fraud = flagged(row.fraud, decision);
      if (fraud === row.fraud) return null;
      const isLost = fraud.band === "reject" && isHeldBySomebody && credit.method !== "decision";
      return nextVersion(row, {
        fraud,
        ...(isLost && { credit: unattributed(credit, decision.decision_id, REJECTED) }),
      });
    }
  }
};

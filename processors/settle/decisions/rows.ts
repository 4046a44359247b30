// The rows after a decision: who is credited, who lost, and which fraud findings were added.
import type { Credit, Decision, EventAttributed, Fraud } from "../../../schemas/generated.ts";
import { reprocessEvent } from "./reprocess.ts";

const highestScore = 100;
/**
 * The reason when a job that looks at many events rejects a credit as fraud. Its findings are on
 * the row.
 */
export const REJECTED = "fraud_rejected";

/**
 * The outcome of a contender who had won before a decision. It is not one of the fixed reasons of
 * an unattributed event.
 */
const OVERRULED = "overruled";

/** A row names only the newest decisions. The log of claims holds all of them. */
const MOST_DECISIONS = 20;

/** Keeps all contenders in order, but only the newest decisions. */
const withDecision = ({ candidates }: Credit, decision: Credit["candidates"][number]): Credit["candidates"] => {
  const decisions = candidates.filter(({ method }) => method === "decision");
  const forgotten = new Set(decisions.slice(0, Math.max(0, decisions.length + 1 - MOST_DECISIONS)));
  const kept = candidates.filter((candidate) => !forgotten.has(candidate));
  return [
    ...kept.map((candidate) => (candidate.outcome === "won" ? { ...candidate, outcome: OVERRULED } : candidate)),
    decision,
  ];
};

/** Names the decision among the candidates, so that an explanation of the event can find it. */
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

/**
 * Adds the decision's reasons to the score, each code once. Returns the same object if none is new.
 */
export const flagged = (before: Fraud, { flags, review_from, reject_from }: Decision): Fraud => {
  const added = flags.filter(({ code }) => !before.reasons.some((known) => known.code === code));
  if (added.length === 0) return before;
  const reasons = [...before.reasons, ...added];
  const score = Math.min(
    highestScore,
    reasons.reduce((sum, { weight }) => sum + weight, 0),
  );
  const found = score >= reject_from ? "reject" : score >= review_from ? "review" : "ok";
  // Reasons are only ever added, so a band never falls, even if the client has changed its
  // thresholds.
  return {
    score,
    band: found === "ok" || before.band === "reject" ? before.band : found,
    reasons,
    hints: before.hints,
  };
};

/**
 * One of the fixed reasons of an unattributed event. The person's own words stay with the decision.
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
 * The new row of an event that is not a claim, so no money is involved. Null if the decision
 * changes nothing.
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

// Computes the decision of the live attribution about a stored event if this rule were in force.
// Pure.

import type { Reference, ReferenceAt, Rule } from "../../../domain/reference/reference.ts";
import { inWinningOrder } from "../../../domain/reference/snapshot.ts";
import { attribute } from "../../../processors/attribute/attribute.ts";
import { claimKindOf } from "../../../processors/attribute/claims.ts";
import type { Candidate, Credit, EventScored } from "../../../schemas/generated.ts";
import type { StoredEvent } from "../../../sinks/analytics/history.ts";
import type { Recorded } from "../../../stream/flow.ts";

/** `alone`: no other rule is considered; `with_active`: it competes with those in force. */
type TryMode = "alone" | "with_active";

export interface TriedRule extends Pick<Rule, "rule_id" | "version" | "client_id" | "priority" | "when" | "then"> {
  readonly mode: TryMode;
}

/** Returns the saved version in the form that trials use. */
export const triedRule = (
  {
    id: rule_id,
    version,
    client_id,
    priority,
    when,
    then,
  }: Omit<TriedRule, "rule_id" | "mode"> & { readonly id: number },
  mode: TryMode,
): TriedRule => ({ rule_id, version, client_id, priority, when, then, mode });

/** The id of an unsaved rule: it sorts after every saved one. */
export const UNSAVED = 2_147_483_647;

export interface RuleTrial {
  /** The partner that would be credited, and the method. */
  readonly credit: Credit;
  /** The rule would be credited with the event. */
  readonly isMatch: boolean;
  /** The rule that wins although this one matches the event; null: none does. */
  readonly lostTo: number | null;
  /** The event makes a line of an order, lead or install. */
  readonly isConversion: boolean;
}

/** A rule overrides neither the proof that an event carries nor a person's decision. */
const PROVEN: ReadonlySet<string | null> = new Set(["click", "upload", "partner_param", "decision"]);
const isDecided = ({ candidates }: Credit): boolean => candidates.some(({ method }) => method === "decision");

export const standsAgainstRules = (credit: Credit): boolean =>
  isDecided(credit) || (credit.status === "attributed" && PROVEN.has(credit.method));

/** The rule as if it were active, without its validity dates. */
const inForce = ({ mode: _, ...rule }: TriedRule): Rule => ({
  ...rule,
  name: "",
  status: "active",
  effective_from: null,
  effective_to: null,
  recorded_at: 0,
  valid_from: 0,
});

const rulesWith = (known: ReferenceAt, tried: TriedRule): readonly Rule[] =>
  tried.mode === "alone"
    ? [inForce(tried)]
    : [...known.rules(tried.client_id).filter(({ rule_id }) => rule_id !== tried.rule_id), inForce(tried)].sort(
        inWinningOrder,
      );

/** Clicks were judged when the event arrived: they keep that result and are not judged again. */
const JUDGED: ReadonlySet<string> = new Set(["click", "identity"]);

const withJudged = (made: Credit, standing: Credit): Credit => {
  const isJudged = ({ method }: Candidate): boolean => JUDGED.has(method);
  const lost = standing.candidates
    .filter(isJudged)
    .map((one) => (one.outcome === "won" ? { ...one, outcome: "lower_precedence" } : one));
  return {
    ...made,
    clicked_at: standing.clicked_at,
    window_days: standing.window_days,
    reference_as_of: standing.reference_as_of,
    candidates: [...made.candidates.filter((one) => !isJudged(one)), ...lost],
  };
};

const noClicks = { clicks: [] };

/**
 * Returns null when consent excludes the event. `known`: the reference data valid at the event's
 * time, as known today.
 */
export const tryRule = (stored: StoredEvent, tried: TriedRule, known: Reference): RuleTrial | null => {
  const { event, enrichment, fraud, credit: standing, received_at } = stored;
  const at = Math.min(event.ts, received_at);
  const then = known.at(at, Number.MAX_SAFE_INTEGER);
  const rules = rulesWith(then, tried);
  const input: Recorded<EventScored> = {
    id: event.event_id,
    key: "",
    at,
    receivedAt: received_at,
    position: { topic: "", partition: 0, offset: 0 },
    data: { event, enrichment, fraud },
  };
  const outcome = attribute(input, noClicks, {
    reference: Object.assign(then, { rules: () => rules }),
    referenceAtReceipt: then,
    clickOf: () => null,
    identityClick: null,
    referenceAsOf: null,
  });
  const made = outcome.kind === "emit" ? outcome.events[0] : undefined;
  if (made === undefined) return null;
  const credit = withJudged(made.output === "claims" ? made.data.attributed.credit : made.data.credit, standing);
  const isMatch = credit.rule_id === tried.rule_id;
  const isMet = credit.candidates.some(
    ({ method, reference, outcome: became }) =>
      method === "rule" && reference === String(tried.rule_id) && became === "lower_precedence",
  );
  return {
    credit,
    isMatch,
    lostTo: isMet ? credit.rule_id : null,
    isConversion: claimKindOf(event, then) === "conversion",
  };
};

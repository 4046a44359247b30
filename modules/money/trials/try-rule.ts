// What the live attribution would say of a stored event with this rule in force. Pure.

import { inWinningOrder, type Reference, type ReferenceAt, type Rule } from "../../../domain/reference/reference.ts";
import { attribute } from "../../../processors/attribute/attribute.ts";
import { claimKindOf } from "../../../processors/attribute/claims.ts";
import type { Candidate, Credit, EventScored } from "../../../schemas/generated.ts";
import type { StoredEvent } from "../../../sinks/analytics/history.ts";
import type { Recorded } from "../../../stream/flow.ts";

/** `alone`: no other rule is looked at; `with_active`: it competes with those in force. */
type TryMode = "alone" | "with_active";

export interface TriedRule extends Pick<Rule, "rule_id" | "version" | "client_id" | "priority" | "when" | "then"> {
  readonly mode: TryMode;
}

/** The version that is saved, as it is tried. */
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

/** Of a rule that is not saved: behind every one that is. */
export const UNSAVED = 2_147_483_647;

export interface Tried {
  /** Who would be credited, and by what. */
  readonly credit: Credit;
  /** The rule would be credited with the event. */
  readonly isMatch: boolean;
  /** The rule that wins although this one meets the event; null: none does. */
  readonly lostTo: number | null;
  /** It makes a line of an order, lead or install. */
  readonly isConversion: boolean;
}

/** What an event itself proves is not taken away by a rule, nor is what a person decided. */
const PROVEN: ReadonlySet<string | null> = new Set(["click", "upload", "partner_param", "decision"]);
const isDecided = ({ candidates }: Credit): boolean => candidates.some(({ method }) => method === "decision");

export const standsAgainstRules = (credit: Credit): boolean =>
  isDecided(credit) || (credit.status === "attributed" && PROVEN.has(credit.method));

/** As active, and without its days. */
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

/** Clicks were judged when the event came: they keep what was found, and are not judged again. */
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

/** Null: consent keeps the event out. `known`: as it was at the event's time, known today. */
export const tryRule = (stored: StoredEvent, tried: TriedRule, known: Reference): Tried | null => {
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

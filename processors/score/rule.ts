// The definition of a fraud rule: a pure function that looks at one event and finds a reason to
// distrust it, or none.

import type { Click } from "../../domain/click-id.ts";
import type { EventEnriched, FraudHints } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";

/** The input of a fraud rule. */
export interface RuleInput {
  readonly input: Recorded<EventEnriched>;
  /**
   * The verified click of the event's click id. Null without a click id, and for one that is not
   * ours.
   */
  readonly click: Click | null;
  /** The hints of a claim or a click. Null for every other event. */
  readonly hints: FraudHints | null;
  /**
   * Returns whether the identifier on this event belongs to the partner who would be credited. A
   * function, because only one rule needs it.
   */
  readonly isPartnersOwn: () => boolean;
}

export interface FraudRule {
  /** Stored in reasons and in client settings, so it is never renamed. */
  readonly code: string;
  /** Added to the score; 100 alone means a reject. A client may set another weight. */
  readonly weight: number;
  /**
   * The limit that `evidence` compares with, in its unit. Null if the rule has none. A client may
   * set another limit.
   */
  readonly threshold: number | null;
  /**
   * True if the finding is about a network or a place and not about this event. Alone, such a rule
   * leads to a review at most.
   */
  readonly isNeverAlone?: boolean;
  /** Returns in words why this event is suspect, or null if it is not. */
  readonly evidence: (seen: RuleInput, threshold: number) => string | null;
}

/** A client's settings of a rule: off, another weight, another threshold. */
export interface RuleSetting {
  readonly active?: boolean;
  readonly weight?: number;
  readonly threshold?: number;
}

const sales: ReadonlySet<string> = new Set(["purchase", "ext_purchase", "lead_submit", "install"]);
/** True for event types that can earn a commission. */
export const isConversion = ({ data: { event } }: Recorded<EventEnriched>): boolean => sales.has(event.t);

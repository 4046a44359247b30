// What a fraud rule is: a pure look at one event that finds a reason to distrust it, or none.

import type { Click } from "../../domain/click-id.ts";
import type { EventEnriched, FraudHints } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";

/** All that a rule may look at. */
export interface RuleInput {
  readonly input: Recorded<EventEnriched>;
  /** What the event's click id proves; null without one, and for one that is not ours. */
  readonly click: Click | null;
  /** What was read across keys for a claim or a click; null for every other event. */
  readonly hints: FraudHints | null;
  /**
   * Whether the identifier that this event shows is that of the partner who would be credited.
   * Asked only by the rule that needs it.
   */
  readonly isPartnersOwn: () => boolean;
}

export interface FraudRule {
  /** Stands in reasons and in the client's settings: never renamed. */
  readonly code: string;
  /** Added to the score; 100 is a reject by itself. A client may set another. */
  readonly weight: number;
  /**
   * The limit that `evidence` compares with, in its unit; null when the rule has none. A client may
   * set another.
   */
  readonly threshold: number | null;
  /**
   * True: what it shows is a fact about a network or a place, not about this event, so that alone
   * it holds an event for review at most.
   */
  readonly isNeverAlone?: boolean;
  /** Why this event is suspect, for people; null when it is not. */
  readonly evidence: (seen: RuleInput, threshold: number) => string | null;
}

/** What a client may set of a rule: off, another weight, another threshold. */
export interface RuleSetting {
  readonly active?: boolean;
  readonly weight?: number;
  readonly threshold?: number;
}

const sales: ReadonlySet<string> = new Set(["purchase", "ext_purchase", "lead_submit", "install"]);
/** Events that somebody may be paid for. */
export const isConversion = ({ data: { event } }: Recorded<EventEnriched>): boolean => sales.has(event.t);

/** The time from click to event in words for people: "1.2 s after the click". */
export const afterClick = (elapsedMs: number): string => `${(elapsedMs / 1_000).toFixed(1)} s after the click`;

/**
 * Milliseconds from the click to the event; undefined without a click of ours, or with one that
 * lies after the event.
 */
export const sinceClick = ({ input, click }: RuleInput): number | undefined =>
  click === null || input.at < click.clicked_at ? undefined : input.at - click.clicked_at;

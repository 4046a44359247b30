// The facts of score: the client's thresholds and settings, the keys that verify click ids and
// identifiers, and hints: what other events have in common with a claim or a click. Hints are read
// once across keys and then stored with the event.
import { addressOfVisitor } from "../../domain/personal/visitor.ts";
import { type FraudExclusion, type Reference, type ReferenceAt, reference } from "../../domain/reference/reference.ts";
import type { EventEnriched, FraudHints } from "../../schemas/generated.ts";
import type { FactsFor, Recorded, UnixMs, View } from "../../stream/flow.ts";
import { type ClickKeys, clickKeys } from "../attribute/facts.ts";
import { type IdentityKeys, identityKeys } from "../enrich/facts.ts";
import { isConversion } from "./rule.ts";
import type { RuleSettings } from "./rules.ts";

/** The look-up for one event. A null field is not looked up. */
export interface HintAsked {
  readonly client_id: number;
  readonly event_id: string;
  readonly at: UnixMs;
  readonly did: string;
  readonly address: string | null;
  /** The click id of the event; null unless its MAC is valid. */
  readonly click_id: string | null;
}

export interface Hints {
  /**
   * One bulk look-up for a batch. Returns hints by event id. The first answer for an event is kept
   * for 8 days, even if new events arrive meanwhile (law R14).
   */
  readonly lookUp: (asked: readonly HintAsked[]) => Promise<ReadonlyMap<string, FraudHints>>;
}
export const hints: View<Hints> = { view: "hints" };

/**
 * Only claims and clicks are looked up. Other events are far too frequent and earn nothing
 * (docs/design/money.md, "Facts").
 */
const hintAskedBy = (input: Recorded<EventEnriched>, clickOf: ClickKeys["clickOf"]): HintAsked | null => {
  const { event } = input.data;
  const isSale = isConversion(input);
  if (!isSale && event.t !== "click") return null;
  const click_id = event.click_id !== null && clickOf(event.click_id) !== null ? event.click_id : null;
  const address = isSale ? addressOfVisitor(event) : null;
  if (click_id === null && address === null) return null;
  return { client_id: event.client_id, event_id: event.event_id, at: input.at, did: event.did, address, click_id };
};

export interface ScoreFacts {
  /** From this score on, the commission is held for review. */
  readonly review: number;
  /** From this score on, no partner is credited. */
  readonly reject: number;
  /** The client's settings of the rules. Undefined if all rules have their defaults. */
  readonly rules: RuleSettings | undefined;
  /** The exclusions of the client. */
  readonly exclusions: readonly FraudExclusion[];
  readonly hints: FraudHints | null;
  readonly clickOf: ClickKeys["clickOf"];
  readonly identifyOf: IdentityKeys["identifyOf"];
  readonly reference: ReferenceAt;
}

/**
 * The threshold of a client without reference data: the default of a new client
 * (docs/design/contracts.md, "Records").
 */
const defaultReview = 40;
const defaultReject = 70;
const noExclusions: readonly FraudExclusion[] = [];
const nothingKnown: ReadonlyMap<string, FraudHints> = new Map();

export const scoreFacts: FactsFor<EventEnriched, ScoreFacts> = {
  name: "score",
  store: "redis",
  load: async (batch, read) => {
    const newest = batch.reduce((latest, event) => Math.max(latest, event.receivedAt), 0);
    const [known, { clickOf }, { identifyOf }]: [Reference, ClickKeys, IdentityKeys] = await Promise.all([
      read(reference, newest),
      read(clickKeys, newest),
      read(identityKeys, newest),
    ]);
    const asked: HintAsked[] = [];
    for (const event of batch) {
      const one = hintAskedBy(event, clickOf);
      if (one !== null) asked.push(one);
    }
    const found = asked.length === 0 ? nothingKnown : await ((await read(hints, newest)) as Hints).lookUp(asked);
    return (event) => {
      const at = known.at(event.at, event.receivedAt);
      const client = at.client(event.data.event.client_id);
      return {
        review: client?.fraud_review ?? defaultReview,
        reject: client?.fraud_reject ?? defaultReject,
        rules: client?.fraud_rules,
        exclusions: client?.fraud_exclusions ?? noExclusions,
        hints: found.size === 0 ? null : (found.get(event.id) ?? null),
        clickOf,
        identifyOf,
        reference: at,
      };
    };
  },
};

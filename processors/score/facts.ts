// The facts of score: the client's thresholds and settings, the keys that verify click ids and
// identifiers, and hints.

import { type FraudExclusion, type Reference, type ReferenceAt, reference } from "../../domain/reference/reference.ts";
import type { EventEnriched, FraudHints } from "../../schemas/generated.ts";
import type { FactsFor } from "../../stream/flow.ts";
import { type ClickKeys, clickKeys } from "../attribute/click-keys.ts";
import { type IdentityKeys, identityKeys } from "../enrich/identity-keys.ts";
import { type HintAsked, type Hints, hintAskedBy, hints } from "./hints.ts";
import type { RuleSettings } from "./rules.ts";

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

// Scores how suspicious an event is: 0 to 100, the client's band, and every reason.

import type { Click } from "../../domain/click-id.ts";
import type { FraudExclusion } from "../../domain/reference/reference.ts";
import type { EventEnriched, EventReceived, EventScored, FraudBand, FraudReason } from "../../schemas/generated.ts";
import { emit, type Processor } from "../../stream/flow.ts";
import { partnerNamed } from "../attribute/contenders.ts";
import { identifiersIn } from "../enrich/identity.ts";
import { exclusionOf } from "./exclusions.ts";
import type { ScoreFacts } from "./facts.ts";
import type { FraudRule, RuleInput } from "./rule.ts";
import { rulesFor } from "./rules.ts";

const highest = 100;
const noReasons: readonly FraudReason[] = [];

/**
 * Adds up the weights of all reasons, at most 100. Never drops and never rejects an event: a risky
 * event is stored like any other, but earns nothing.
 */
export const score: Processor<EventEnriched, { scored: EventScored }, null, ScoreFacts> = (input, _, facts) => {
  const { event, enrichment } = input.data;
  const click = event.click_id === null ? null : facts.clickOf(event.click_id);
  const seen: RuleInput = { input, click, hints: facts.hints, isPartnersOwn: () => isPartnersOwn(event, click, facts) };
  let reasons: FraudReason[] | undefined;
  let points = 0;
  let canReject = false;
  for (const rule of rulesFor(facts.rules)) {
    const reason = reasonFor(rule, seen);
    if (reason === null) continue;
    if (reasons === undefined) reasons = [reason];
    else reasons.push(reason);
    points += reason.weight;
    canReject ||= rule.isNeverAlone !== true;
  }
  const excluded = reasons === undefined ? undefined : exclusionOf(facts.exclusions, event);
  if (excluded !== undefined) {
    const fraud = { score: 0, band: "ok" as const, reasons: forgiven(reasons!, excluded), hints: facts.hints };
    return emit([{ output: "scored", data: { event, enrichment, fraud } }]);
  }
  const total = Math.min(highest, points);
  const fraud = {
    score: total,
    band: bandOf(total, facts, canReject),
    reasons: reasons ?? noReasons,
    hints: facts.hints,
  };
  return emit([{ output: "scored", data: { event, enrichment, fraud } }]);
};

/** Keeps the reasons visible but sets their weight to nothing. */
const forgiven = (
  reasons: readonly FraudReason[],
  { kind, value, author, reason }: FraudExclusion,
): readonly FraudReason[] => [
  ...reasons.map((found) => ({ ...found, weight: 0 })),
  { code: "excluded", weight: 0, evidence: `${kind} ${value}: ${reason} (${author})` },
];

const reasonFor = ({ code, weight, threshold, evidence }: FraudRule, seen: RuleInput): FraudReason | null => {
  const found = evidence(seen, threshold ?? 0);
  return found === null ? null : { code, weight, evidence: found };
};

const bandOf = (points: number, { review, reject }: ScoreFacts, canReject: boolean): FraudBand =>
  points >= reject && canReject ? "reject" : points >= review ? "review" : "ok";

/**
 * Compares with the partner whom the click or the source names. Other partners are chosen later,
 * and not because of an action of their own.
 */
const isPartnersOwn = (event: EventReceived, click: Click | null, { reference, identifyOf }: ScoreFacts): boolean => {
  const link = click === null ? undefined : reference.link(click.link_id);
  const { partner_ref } = event;
  const named = link ?? (partner_ref === null ? undefined : partnerNamed({ ...event, partner_ref }, reference));
  const email = named === undefined ? null : (reference.partner(named.partner_id)?.email_sha256 ?? null);
  if (email === null) return false;
  return identifiersIn(event, identifyOf).email === identifyOf(event.client_id).hashed(email);
};

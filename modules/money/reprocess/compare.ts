// Tells whether a row differs today. Explanations (candidates, versions of rules, build dates) are
// not compared.
import type { Credit, Enrichment, Fraud } from "../../../schemas/generated.ts";
import type { ReprocessStage } from "./ports.ts";

export type Part = "credit" | "fraud" | "enrichment" | "review";
interface Parts {
  readonly enrichment: Enrichment;
  readonly fraud: Fraud;
  readonly credit: Credit;
}

const creditSays = ({ status, method, reason, partner_id, campaign_id, link_id, rule_id }: Credit) => [
  status,
  method,
  reason,
  partner_id,
  campaign_id,
  link_id,
  rule_id,
];
const fraudSays = ({ score, band, reasons }: Fraud) => [score, band, reasons.map(({ code, weight }) => [code, weight])];
const enrichmentSays = (one: Enrichment) => [
  one.country,
  one.region,
  one.city,
  one.asn,
  one.asn_class,
  one.device,
  one.browser,
  one.os,
  one.is_bot,
  one.consent,
  one.person,
];
const differs = (a: unknown, b: unknown): boolean => JSON.stringify(a) !== JSON.stringify(b);

const isSameCredit = (a: Credit, b: Credit): boolean => !differs(creditSays(a), creditSays(b));

/** Returns the parts that differ. Results of stages before `stage` are not compared. */
export const changedParts = (before: Parts, after: Parts, stage: ReprocessStage): readonly Part[] => {
  const parts: Part[] = [];
  if (!isSameCredit(before.credit, after.credit)) parts.push("credit");
  if ((stage === "enrich" || stage === "score") && differs(fraudSays(before.fraud), fraudSays(after.fraud)))
    parts.push("fraud");
  if (stage === "enrich" && differs(enrichmentSays(before.enrichment), enrichmentSays(after.enrichment)))
    parts.push("enrichment");
  return parts;
};

/** Returns `today`, with the stored results of the stages before `stage`. */
export const withStanding = <Row extends Parts>(standing: Parts, today: Row, stage: ReprocessStage): Row => ({
  ...today,
  enrichment: stage === "enrich" ? today.enrichment : standing.enrichment,
  fraud: stage === "enrich" || stage === "score" ? today.fraud : standing.fraud,
});

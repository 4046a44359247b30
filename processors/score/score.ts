// processors/score/score.ts - says how far an event can be trusted: 0 to 100, the client's band, and every reason.
import type { EventEnriched, EventScored, Fraud, FraudBand, FraudReason } from "../../schemas/generated.ts";
import { emit, type Processor, type Recorded } from "../../stream/flow.ts";
import type { Click } from "../click-id.ts";
import type { FraudRule } from "./rule.ts";
import { botUserAgent } from "./rules/bot-user-agent.ts";
import { clickToInstall } from "./rules/click-to-install.ts";
import { clickToPurchase } from "./rules/click-to-purchase.ts";
import type { Thresholds } from "./thresholds.ts";

/** Each sees one event and the click that it proves; what needs other keys comes as a hint, or in the nightly pass (settlement.md 7). */
const rules: readonly FraudRule[] = [botUserAgent, clickToInstall, clickToPurchase];
const highest = 100;
const noReasons: readonly FraudReason[] = [];

/** Adds up the weights of all reasons, 100 at most. Never drops, never rejects: a risky event is stored like any other, it only earns nothing. */
export const score: Processor<EventEnriched, { scored: EventScored }, null, Thresholds> = (input, _, thresholds) => {
  const { event, enrichment } = input.data;
  const click = event.click_id === null ? null : thresholds.clickOf(event.click_id);
  const reasons = reasonsFor(input, click);
  const points = Math.min(
    highest,
    reasons.reduce((sum, { weight }) => sum + weight, 0),
  );
  const fraud: Fraud = { score: points, band: bandOf(points, thresholds), reasons };
  return emit([{ output: "scored", data: { event, enrichment, fraud } }]);
};

/** Nearly every event gives no reason and gets the same empty list. */
const reasonsFor = (input: Recorded<EventEnriched>, click: Click | null): readonly FraudReason[] => {
  let reasons: FraudReason[] | undefined;
  for (const rule of rules) {
    const reason = rule(input, click);
    if (reason === null) continue;
    if (reasons === undefined) reasons = [reason];
    else reasons.push(reason);
  }
  return reasons ?? noReasons;
};

const bandOf = (points: number, { review, reject }: Thresholds): FraudBand =>
  points >= reject ? "reject" : points >= review ? "review" : "ok";

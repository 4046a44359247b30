// A purchase on the web follows its click sooner than a person can buy.
import { afterClick, type FraudRule, sinceClick } from "../rule.ts";

/**
 * Milliseconds. Less than a page load and a form (docs/enrichment.md, "The rules"). Purchases of
 * apps come as ext_purchase: their click can lie before the order by design.
 */
export const clickToPurchase: FraudRule = {
  code: "click_to_purchase",
  weight: 30,
  threshold: 3_000,
  evidence: (seen, threshold) => {
    const elapsedMs = seen.input.data.event.t === "purchase" ? sinceClick(seen) : undefined;
    return elapsedMs === undefined || elapsedMs >= threshold ? null : afterClick(elapsedMs);
  },
};

// A purchase on the web follows its click sooner than a person can buy.
import { afterClick, type FraudRule, sinceClick } from "../rule.ts";

/**
 * In milliseconds: less time than a page load and a form take (docs/enrichment.md, "The rules").
 * App purchases arrive as ext_purchase and are exempt, because their click may legitimately come
 * just before the order.
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

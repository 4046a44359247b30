// processors/score/rules/click-to-purchase.ts - a purchase on the web follows its click sooner than a person can buy.
import { afterClick, type FraudRule } from "../rule.ts";

/** Less than a page load and a form (features.md 8). Purchases of apps come as ext_purchase: their click can lie before the order by design. */
const suspectMs = 3_000;
const weight = 30;

export const clickToPurchase: FraudRule = ({ at, data: { event } }, click) => {
  if (event.t !== "purchase" || click === null) return null;
  const elapsedMs = at - click.clicked_at;
  return elapsedMs < 0 || elapsedMs >= suspectMs ? null : { code: "click_to_purchase", weight, evidence: afterClick(elapsedMs) };
};

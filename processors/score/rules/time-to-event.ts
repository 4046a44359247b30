// Rules about the time from a click to its event: an install or a purchase that follows too soon.
import type { FraudRule, RuleInput } from "../rule.ts";

/**
 * Milliseconds from the click to the event. Undefined without a click of ours, or if the click is
 * later than the event.
 */
const sinceClick = ({ input, click }: RuleInput): number | undefined =>
  click === null || input.at < click.clicked_at ? undefined : input.at - click.clicked_at;

/** Finds events of a type that follow their click in less time than the threshold. */
const soonAfterClick =
  (t: "install" | "purchase"): FraudRule["evidence"] =>
  (seen, threshold) => {
    const elapsedMs = seen.input.data.event.t === t ? sinceClick(seen) : undefined;
    if (elapsedMs === undefined || elapsedMs >= threshold) return null;
    return `${(elapsedMs / 1_000).toFixed(1)} s after the click`;
  };

/**
 * In milliseconds. No store can show, load and start an app within 2 s, so the click was invented
 * (docs/enrichment.md, "The rules").
 */
export const impossibleInstall: FraudRule = {
  code: "impossible_install",
  weight: 100,
  threshold: 2_000,
  evidence: soonAfterClick("install"),
};

/**
 * In milliseconds. Hijacked clicks peak between 3 and 10 s before the first start of an app
 * (docs/enrichment.md, "The rules").
 */
export const clickToInstall: FraudRule = {
  code: "click_to_install",
  weight: 40,
  threshold: 10_000,
  evidence: soonAfterClick("install"),
};

/**
 * In milliseconds: less time than a page load and a form take (docs/enrichment.md, "The rules").
 * App purchases arrive as ext_purchase and are exempt, because their click may legitimately come
 * just before the order.
 */
export const clickToPurchase: FraudRule = {
  code: "click_to_purchase",
  weight: 30,
  threshold: 3_000,
  evidence: soonAfterClick("purchase"),
};

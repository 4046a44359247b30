// An app was installed sooner after the click than people do it.
import { afterClick, type FraudRule, sinceClick } from "../rule.ts";

/**
 * In milliseconds. Hijacked clicks peak between 3 and 10 s before the first start
 * (docs/enrichment.md, "The rules").
 */
export const clickToInstall: FraudRule = {
  code: "click_to_install",
  weight: 40,
  threshold: 10_000,
  evidence: (seen, threshold) => {
    const elapsedMs = seen.input.data.event.t === "install" ? sinceClick(seen) : undefined;
    return elapsedMs === undefined || elapsedMs >= threshold ? null : afterClick(elapsedMs);
  },
};

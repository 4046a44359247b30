// An app was installed sooner after the click than any store can deliver it.
import { afterClick, type FraudRule, sinceClick } from "../rule.ts";

/**
 * Milliseconds. No store shows, loads and starts an app in 2 s: the click was made up
 * (docs/enrichment.md, "The rules").
 */
export const impossibleInstall: FraudRule = {
  code: "impossible_install",
  weight: 100,
  threshold: 2_000,
  evidence: (seen, threshold) => {
    const elapsedMs = seen.input.data.event.t === "install" ? sinceClick(seen) : undefined;
    return elapsedMs === undefined || elapsedMs >= threshold ? null : afterClick(elapsedMs);
  },
};

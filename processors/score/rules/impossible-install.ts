// An app was installed sooner after the click than any store can deliver it.
import { afterClick, type FraudRule, sinceClick } from "../rule.ts";

/**
 * In milliseconds. No store can show, load and start an app within 2 s, so the click was invented
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

// processors/score/rules/click-to-install.ts - an app was installed sooner after the click than a store can deliver it.
import { afterClick, type FraudRule } from "../rule.ts";

/** No store shows, loads and starts an app in 2 s: the click was made up. Hijacked clicks peak between 3 and 10 s (features.md 8). */
const impossibleMs = 2_000;
const suspectMs = 10_000;

export const clickToInstall: FraudRule = ({ at, data: { event } }, click) => {
  if (event.t !== "install" || click === null) return null;
  const elapsedMs = at - click.clicked_at;
  if (elapsedMs < 0 || elapsedMs >= suspectMs) return null;
  return { code: "click_to_install", weight: elapsedMs < impossibleMs ? 100 : 40, evidence: afterClick(elapsedMs) };
};

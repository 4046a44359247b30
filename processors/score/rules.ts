// All fraud rules that look at one event, with the settings of a client applied.
import type { FraudRule, RuleSetting } from "./rule.ts";
import { addressClass, conversionsPerAddress, countryDiffers } from "./rules/address.ts";
import { clickToInstall, clickToPurchase, impossibleInstall } from "./rules/time-to-event.ts";
import { botUserAgent, clickOnManyDevices, selfReferral } from "./rules/visitor.ts";

/**
 * The nine rules that an event, its click id or a hint can trigger, in the order of their reasons.
 * The tenth, an order that another partner claims, is found by settle, which sees both claims.
 * Click floods and flat distributions need whole days of data (docs/design/money.md, "Score").
 */
export const rules: readonly FraudRule[] = [
  botUserAgent,
  impossibleInstall,
  clickToInstall,
  clickToPurchase,
  conversionsPerAddress,
  addressClass,
  selfReferral,
  countryDiffers,
  clickOnManyDevices,
];

/** Settings by rule code. A rule without settings has its defaults. */
export type RuleSettings = Readonly<Record<string, RuleSetting>>;

/**
 * The rules that are on for a client, with its weights and thresholds. Computed once for each
 * version of the client's row.
 */
export const rulesFor = (settings: RuleSettings | undefined): readonly FraudRule[] => {
  if (settings === undefined) return rules;
  const known = adjusted.get(settings);
  if (known !== undefined) return known;
  const own = rules.flatMap((rule): readonly FraudRule[] => {
    const setting = Object.hasOwn(settings, rule.code) ? settings[rule.code]! : {};
    if (setting.active === false) return [];
    return [{ ...rule, weight: setting.weight ?? rule.weight, threshold: setting.threshold ?? rule.threshold }];
  });
  adjusted.set(settings, own);
  return own;
};
const adjusted = new WeakMap<RuleSettings, readonly FraudRule[]>();

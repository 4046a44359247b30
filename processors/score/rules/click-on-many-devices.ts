// More devices carry one click id than one visitor has.
import type { FraudRule } from "../rule.ts";

/**
 * More than 3 devices carry the click id, this one included. A visitor may have two device ids, one
 * of the tracking link and one of the shop, and a phone that is passed on adds a third. The limit
 * is our own.
 */
export const clickOnManyDevices: FraudRule = {
  code: "click_on_many_devices",
  weight: 30,
  threshold: 3,
  evidence: ({ hints }, threshold) => {
    const others = hints?.click_devices ?? null;
    return others === null || others + 1 <= threshold ? null : `${others + 1} devices carry this click id`;
  },
};

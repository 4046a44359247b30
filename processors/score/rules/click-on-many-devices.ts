// One click id is carried by more devices than one visitor has.
import type { FraudRule } from "../rule.ts";

/**
 * Devices that carried the click id, this one included: more than 3. A tracking link and the shop
 * may give one visitor two ids, a phone handed over a third (ours).
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

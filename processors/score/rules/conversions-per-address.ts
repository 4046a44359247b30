// One address converts more often in an hour than a household does.
import { type FraudRule, isConversion } from "../rule.ts";

/**
 * Conversions of one address in an hour of the clock, this one included: more than 20
 * (docs/enrichment.md, "The rules"). Offices and carriers share addresses, hence review at most.
 */
export const conversionsPerAddress: FraudRule = {
  code: "conversions_per_address",
  weight: 30,
  threshold: 20,
  evidence: ({ input, hints }, threshold) => {
    const others = hints?.address_conversions ?? null;
    if (others === null || !isConversion(input) || others + 1 <= threshold) return null;
    return `conversion ${others + 1} from this address in the hour`;
  },
};

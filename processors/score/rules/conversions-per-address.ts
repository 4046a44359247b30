// One address converts more often in an hour than a household would.
import { type FraudRule, isConversion } from "../rule.ts";

/**
 * More than 20 conversions from one address within a clock hour, this one included
 * (docs/enrichment.md, "The rules"). Offices and carriers share addresses, so the rule leads to a
 * review at most.
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

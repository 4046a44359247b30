// The buyer is the partner who would be paid.
import { type FraudRule, isConversion } from "../rule.ts";

/**
 * The e-mail address of the lead or order is the partner's own (docs/enrichment.md, "The rules").
 * Both are compared as keyed hashes.
 */
export const selfReferral: FraudRule = {
  code: "self_referral",
  weight: 60,
  threshold: null,
  evidence: (seen) => (isConversion(seen.input) && seen.isPartnersOwn() ? "the e-mail is that of the partner" : null),
};

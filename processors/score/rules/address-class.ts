// The visitor's address belongs to a data centre, a VPN or TOR.
import type { FraudRule } from "../rule.ts";

/**
 * Shoppers use VPNs too, so this rule alone never rejects (docs/enrichment.md, "The rules").
 * Without the operator's list of networks no address has a class, and the rule is off.
 */
export const addressClass: FraudRule = {
  code: "address_class",
  weight: 25,
  threshold: null,
  isNeverAlone: true,
  evidence: ({ input }) => {
    const { asn_class, asn } = input.data.enrichment;
    if (asn_class !== "hosting" && asn_class !== "vpn") return null;
    return `${asn_class} network${asn === null ? "" : ` AS${asn}`}`;
  },
};

// The visitor's address belongs to a data centre, a VPN or TOR.
import type { FraudRule } from "../rule.ts";

/**
 * Shoppers use VPNs too: never a reject by itself (docs/enrichment.md, "The rules"). Off without
 * the operator's list of networks: then no address has a class.
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

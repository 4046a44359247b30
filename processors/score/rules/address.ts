// Rules about the visitor's address: its network, its country, and how often it converts.
import { type FraudRule, isConversion } from "../rule.ts";

/**
 * The address belongs to a data centre, a VPN or TOR. Shoppers use VPNs too, so this rule alone
 * never rejects (docs/enrichment.md, "The rules"). Without the operator's list of networks no
 * address has a class, and the rule is off.
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

/**
 * The click came from another country than the conversion. Travellers and VPN users trigger this
 * rule too, and country data contains errors, so its weight is small (docs/enrichment.md, "The
 * rules").
 */
export const countryDiffers: FraudRule = {
  code: "country_differs",
  weight: 10,
  threshold: null,
  isNeverAlone: true,
  evidence: ({ input, hints }) => {
    const clicked = hints?.click_country ?? null;
    const { country } = input.data.enrichment;
    if (clicked === null || country === null || clicked === country || !isConversion(input)) return null;
    return `click from ${clicked}, conversion from ${country}`;
  },
};

// The click came from a different country than the conversion.
import { type FraudRule, isConversion } from "../rule.ts";

/**
 * Travellers and VPN users trigger this rule too, and country data contains errors, so its weight
 * is small (docs/enrichment.md, "The rules").
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

// The click came from another country than the conversion.
import { type FraudRule, isConversion } from "../rule.ts";

/**
 * Travellers and VPNs do it too, and country data errs: a small weight (docs/enrichment.md, "The
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

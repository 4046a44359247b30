// What stages found out about an event that none of them has looked at.
import type { Enrichment, Fraud } from "../schemas/generated.ts";

export const nothingFound: { readonly enrichment: Enrichment; readonly fraud: Fraud } = {
  enrichment: {
    country: null,
    device: "unknown",
    browser: null,
    os: null,
    is_bot: false,
    consent: 0,
    geo_built: null,
    errors: [],
    region: null,
    city: null,
    asn: null,
    asn_class: "unknown",
    person: null,
    edges: [],
  },
  fraud: { score: 0, band: "ok", reasons: [], hints: null },
};

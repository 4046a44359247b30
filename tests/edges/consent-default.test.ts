// The consent of a visitor without a choice, by place.
import fc from "fast-check";
import { expect, test } from "vitest";
import { consentDefaultOf } from "../../processors/admit/request-terms.ts";

test.each(["EU", "UK", "BR"] as const)("in %s nothing, whatever the client's default", (jurisdiction) =>
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 255 }), (consent_default) => {
      expect(consentDefaultOf({ jurisdiction, consent_default })).toBe(0x00);
    }),
  ),
);

test("in Mexico what the client has chosen", () =>
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 255 }), (consent_default) => {
      expect(consentDefaultOf({ jurisdiction: "MX", consent_default })).toBe(consent_default);
    }),
  ));

// Rules about the visitor: a bot's user agent, a click id on many devices, and a buyer who is the
// partner.
import { type FraudRule, isConversion } from "../rule.ts";

const evidenceLength = 120;

/**
 * Alone this rule leads to a review and never to a reject, because user agents are easy to fake, a
 * bot's as well as a person's.
 */
export const botUserAgent: FraudRule = {
  code: "ua_bot",
  weight: 60,
  threshold: null,
  evidence: ({ input: { data } }) => (data.enrichment.is_bot ? (data.event.ua ?? "").slice(0, evidenceLength) : null),
};

/**
 * More than 3 devices carry the click id, this one included. A visitor may have two device ids, one
 * of the tracking link and one of the shop, and a phone that is passed on adds a third. The limit
 * is our own.
 */
export const clickOnManyDevices: FraudRule = {
  code: "click_on_many_devices",
  weight: 30,
  threshold: 3,
  evidence: ({ hints }, threshold) => {
    const others = hints?.click_devices ?? null;
    return others === null || others + 1 <= threshold ? null : `${others + 1} devices carry this click id`;
  },
};

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

// The user agent calls itself a bot.
import type { FraudRule } from "../rule.ts";

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

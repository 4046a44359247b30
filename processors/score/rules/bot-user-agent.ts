// The user agent calls itself a bot.
import type { FraudRule } from "../rule.ts";

const evidenceLength = 120;

/**
 * Alone it holds a commission for review and refuses none: a bot's user agent is easy to fake, and
 * so is a person's.
 */
export const botUserAgent: FraudRule = {
  code: "ua_bot",
  weight: 60,
  threshold: null,
  evidence: ({ input: { data } }) => (data.enrichment.is_bot ? (data.event.ua ?? "").slice(0, evidenceLength) : null),
};

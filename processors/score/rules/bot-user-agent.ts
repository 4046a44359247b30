// processors/score/rules/bot-user-agent.ts - the user agent calls itself a bot.
import type { FraudRule } from "../rule.ts";

/** Alone it holds a commission for review and refuses none: a bot's user agent is easy to fake, and so is a person's. */
const weight = 60;
const evidenceLength = 120;

export const botUserAgent: FraudRule = ({ data: { event, enrichment } }) =>
  enrichment.is_bot ? { code: "ua_bot", weight, evidence: (event.ua ?? "").slice(0, evidenceLength) } : null;

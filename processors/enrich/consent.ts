// Determines the consent in force for an event, and which parts of the event that consent allows
// (docs/design/contracts.md, "Consent").
import { chosenBy, maskInForce } from "../../domain/personal/consent.ts";
import { signalsIn } from "../../domain/personal/signals.ts";
import type { EventReceived } from "../../schemas/generated.ts";

const analytics = 0x01;

/**
 * These events may lead to a payment, so they are stored and credited even without consent to
 * analytics.
 */
const contractual: ReadonlySet<string> = new Set(["purchase", "ext_purchase", "refund", "lead_submit", "install"]);

/** Removes address and user agent of a visitor without consent to analytics. */
const noDevice = { ip: null, ua: null } as const;

const isSeen = (consent: number): boolean => (consent & analytics) !== 0;

/**
 * The part of an event that may pass: all of it, all but the device, or null. URL and referrer pass
 * as far as attribute, because a partner may earn by them. Custom events pass as well, because only
 * attribute knows whether a partner earns on them.
 */
export const allowedBy = (consent: number, event: EventReceived): EventReceived | null => {
  if (isSeen(consent)) return event;
  return contractual.has(event.t) || event.t === "custom" ? { ...event, ...noDevice } : null;
};

/**
 * The part of an event that may be stored. Without consent to analytics, URL and referrer are
 * removed, and a custom event that no partner earns on becomes null. A refusal of consent is
 * stored, because it hides the visitor's earlier events.
 */
export const shownBy = (consent: number, event: EventReceived, isClaim: boolean): EventReceived | null => {
  if (isSeen(consent)) return event;
  if (event.t === "custom" && !isClaim && chosenBy(event) === null) return null;
  return { ...event, url: null, ref: null };
};

/**
 * True if the event is not stored as an event; of a refusal of consent, only the choice is stored.
 * Most events have consent, so their signals need not be parsed.
 */
export const isWithheld = (event: EventReceived): boolean => {
  const mask = (event.consent & analytics) === 0 ? 0 : maskInForce(event.consent, signalsIn(event));
  return (mask & analytics) === 0 && !contractual.has(event.t);
};

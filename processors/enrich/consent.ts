// The consent in force for an event, and what of the event may go on under it
// (docs/design/contracts.md, "Consent").
import { chosenBy, maskInForce } from "../../domain/personal/consent.ts";
import { signalsIn } from "../../domain/personal/signals.ts";
import type { EventReceived } from "../../schemas/generated.ts";

const analytics = 0x01;

/**
 * Somebody is owed something by these, so they are stored and credited without the analytics bit.
 */
const contractual: ReadonlySet<string> = new Set(["purchase", "ext_purchase", "refund", "lead_submit", "install"]);

/** The device of a visitor who did not agree to be seen. */
const noDevice = { ip: null, ua: null } as const;

const isSeen = (consent: number): boolean => (consent & analytics) !== 0;

/**
 * The event as it may go on: itself, itself without the device, or null when nothing of it may. Its
 * way goes as far as attribute, for a partner may earn by it, and so does a custom event, for only
 * there it is known whether a partner earns on it.
 */
export const allowedBy = (consent: number, event: EventReceived): EventReceived | null => {
  if (isSeen(consent)) return event;
  return contractual.has(event.t) || event.t === "custom" ? { ...event, ...noDevice } : null;
};

/**
 * What went on as it may be stored: without its way; null for a custom event that no partner earns
 * on. A refusal is stored too: it is what hides the past.
 */
export const shownBy = (consent: number, event: EventReceived, isClaim: boolean): EventReceived | null => {
  if (isSeen(consent)) return event;
  if (event.t === "custom" && !isClaim && chosenBy(event) === null) return null;
  return { ...event, url: null, ref: null };
};

/**
 * An event that is not stored as one, of a refusal the choice alone is. Most events agree to be
 * seen, and nothing about them is parsed for it.
 */
export const isWithheld = (event: EventReceived): boolean => {
  const mask = (event.consent & analytics) === 0 ? 0 : maskInForce(event.consent, signalsIn(event));
  return (mask & analytics) === 0 && !contractual.has(event.t);
};

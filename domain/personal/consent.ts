// The consent in force for an event, the explicit choice that an event reports, and which parts of
// an event a consent allows (docs/design/contracts.md, "Consent").
import type { EventAttributed, EventReceived } from "../../schemas/generated.ts";
import { type Signals, signalsIn } from "./visitor.ts";

/**
 * Global Privacy Control turns off analytics (0x01) and DSP export (0x04). Do Not Track turns off
 * DSP export. Bit 7 is reserved and kept.
 */
const afterGpc = ~0x05;
const afterDnt = ~0x04;

/** The given mask without the bits that the browser's signals turn off. */
export const maskInForce = (given: number, { hasGpc, hasDnt }: Pick<Signals, "hasGpc" | "hasDnt">): number =>
  given & (hasGpc ? afterGpc : -1) & (hasDnt ? afterDnt : -1);

/**
 * The custom event with which a page reports its visitor's choice. The mask is one of its props.
 */
const CONSENT_CHANGE = "consent";
const LARGEST_MASK = 0xff;

/**
 * The mask in force after the explicit choice that an event reports. Null if it reports none: an
 * event of that name without a mask is the sender's own. A choice with a placeholder device id is
 * ignored, because it would apply to strangers.
 */
export const chosenBy = (event: EventReceived): number | null => {
  if (event.custom_name !== CONSENT_CHANGE || event.warnings.includes("weak_did")) return null;
  const { mask, ...signals } = signalsIn(event);
  return Number.isInteger(mask) && mask! >= 0 && mask! <= LARGEST_MASK ? maskInForce(mask!, signals) : null;
};

const analytics = 0x01;

/**
 * These events may lead to a payment, so they are stored and credited even without consent to
 * analytics.
 */
export const contractual: ReadonlySet<string> = new Set([
  "purchase",
  "ext_purchase",
  "refund",
  "lead_submit",
  "install",
]);

/** Removes address and user agent of a visitor without consent to analytics. */
const noDevice = { ip: null, ua: null } as const;

export const allowsAnalytics = (consent: number): boolean => (consent & analytics) !== 0;

/** True if a row may show the visitor's pages, device and place, i.e. with consent to analytics. */
export const isSeen = ({ data }: { readonly data: EventAttributed }): boolean =>
  allowsAnalytics(data.enrichment.consent);

/**
 * True if the event has a row. Its visitor's pages, device and place are only shown if `isSeen`.
 */
export const isStored = (attributed: { readonly data: EventAttributed }): boolean =>
  isSeen(attributed) || contractual.has(attributed.data.event.t);

/**
 * The part of an event that may pass: all of it, all but the device, or null. URL and referrer pass
 * as far as attribute, because a partner may earn by them. Custom events pass as well, because only
 * attribute knows whether a partner earns on them.
 */
export const allowedBy = (consent: number, event: EventReceived): EventReceived | null => {
  if (allowsAnalytics(consent)) return event;
  return contractual.has(event.t) || event.t === "custom" ? { ...event, ...noDevice } : null;
};

/**
 * The part of an event that may be stored. Without consent to analytics, URL and referrer are
 * removed, and a custom event that no partner earns on becomes null. A refusal of consent is
 * stored, because it hides the visitor's earlier events.
 */
export const shownBy = (consent: number, event: EventReceived, isClaim: boolean): EventReceived | null => {
  if (allowsAnalytics(consent)) return event;
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

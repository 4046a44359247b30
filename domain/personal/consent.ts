// The consent mask in force: the given mask without the bits that browser signals turn off, and the
// explicit choice that an event reports.
import type { EventReceived } from "../../schemas/generated.ts";
import { type Signals, signalsIn } from "./signals.ts";

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

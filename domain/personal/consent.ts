// The mask of consent that holds: less what the browser's signals turn off, and as an event says
// that its visitor chose it.
import type { EventReceived } from "../../schemas/generated.ts";
import { type Signals, signalsIn } from "./signals.ts";

/**
 * Global Privacy Control turns analytics (0x01) and DSP export (0x04) off, Do Not Track DSP export;
 * bit 7 is reserved and kept.
 */
const afterGpc = ~0x05;
const afterDnt = ~0x04;

/** The mask as given, less what the browser's signals turn off. */
export const maskInForce = (given: number, { hasGpc, hasDnt }: Pick<Signals, "hasGpc" | "hasDnt">): number =>
  given & (hasGpc ? afterGpc : -1) & (hasDnt ? afterDnt : -1);

/** What a page calls a choice of its visitor; its mask stands in its props. */
const CONSENT_CHANGE = "consent";
const LARGEST_MASK = 0xff;

/**
 * The mask in force by the explicit choice that an event reports, or null where it reports none:
 * an event of that name without a mask is of the sender's own. A device without a real id would
 * choose for strangers.
 */
export const chosenBy = (event: EventReceived): number | null => {
  if (event.custom_name !== CONSENT_CHANGE || event.warnings.includes("weak_did")) return null;
  const { mask, ...signals } = signalsIn(event);
  return Number.isInteger(mask) && mask! >= 0 && mask! <= LARGEST_MASK ? maskInForce(mask!, signals) : null;
};

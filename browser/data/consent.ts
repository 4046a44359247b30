// The consent mask of this visitor: the choice that the page reports, less what the browser's own
// signals turn off.

/** Bits as in the specification ("Consent bitmask"), with the names that pages use for them. */
const BITS: Readonly<Record<string, number>> = {
  analytics: 0x01,
  personalization: 0x02,
  dsp: 0x04,
  dsp_export: 0x04,
  cross_client: 0x08,
  email: 0x10,
  replay: 0x10,
  push: 0x20,
  extended_retention: 0x40,
};
export const ANALYTICS = 0x01;
/** A recording shows what a visitor does, so it needs the bit of analytics and its own. */
export const REPLAY = 0x11;

/**
 * The mask that `svc("consent", choice)` asks for: a number from 0 to 255, true or false for all
 * bits, or an object of names, which changes those bits of `current`. Undefined if the choice has
 * none of these forms.
 */
export const chosenMask = (choice: unknown, current: number): number | undefined => {
  if (typeof choice === "boolean") return choice ? 0xff : 0;
  if (typeof choice === "number") return Number.isInteger(choice) && choice >= 0 && choice <= 0xff ? choice : undefined;
  if (typeof choice !== "object" || choice === null) return undefined;
  let mask = current;
  let isChoice = false;
  for (const [name, isGranted] of Object.entries(choice)) {
    const bit = BITS[name];
    if (bit === undefined || typeof isGranted !== "boolean") continue;
    isChoice = true;
    mask = isGranted ? mask | bit : mask & ~bit;
  }
  return isChoice ? mask : undefined;
};

export interface PrivacySignals {
  readonly gpc: boolean;
  readonly dnt: boolean;
}

/** Global Privacy Control turns analytics and DSP export off, Do Not Track DSP export. */
export const maskInForce = (mask: number, { gpc, dnt }: PrivacySignals): number =>
  mask & (gpc ? ~0x05 : -1) & (dnt ? ~0x04 : -1);

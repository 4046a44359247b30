// What this visitor chose, as the page reports it, and the mask that it makes of a client's
// default, less what the browser's own signals turn off.
import { type Choice, fullChoice } from "../../domain/personal/choice.ts";

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
 * The choice after `svc("consent", given)`: a number from 0 to 255, true or false for all bits, or
 * an object of names, which changes those bits of the choice before. A bit that no choice names is
 * never granted here: it stays that of the client's default. Undefined if `given` has none of these
 * forms.
 */
export const choiceAfter = (given: unknown, before: Choice | undefined): Choice | undefined => {
  if (typeof given === "boolean") return fullChoice(given ? 0xff : 0);
  if (typeof given === "number") return given % 1 === 0 && given >= 0 && given <= 0xff ? fullChoice(given) : undefined;
  if (typeof given !== "object" || given === null) return undefined;
  let { set, clear } = before || { set: 0, clear: 0 };
  let isChoice = false;
  for (const [name, isGranted] of Object.entries(given)) {
    const bit = BITS[name];
    if (bit === undefined || typeof isGranted !== "boolean") continue;
    isChoice = true;
    set = isGranted ? set | bit : set & ~bit;
    clear = isGranted ? clear & ~bit : clear | bit;
  }
  return isChoice ? { set, clear } : undefined;
};

export interface PrivacySignals {
  readonly gpc: boolean;
  readonly dnt: boolean;
}

/** Global Privacy Control turns analytics and DSP export off, Do Not Track DSP export. */
export const maskInForce = (mask: number, { gpc, dnt }: PrivacySignals): number =>
  mask & (gpc ? ~0x05 : -1) & (dnt ? ~0x04 : -1);

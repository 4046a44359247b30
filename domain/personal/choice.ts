// A visitor's choice of consent: the bits that it grants and the bits that it refuses. Every other
// bit stays that of the client's default. The browser's script makes it and the edge resolves it,
// so this file imports nothing.

export interface Choice {
  /** Granted bits. */
  readonly set: number;
  /** Refused bits. */
  readonly clear: number;
}

/** Choices of this version grant nothing that was not named; the script writes it beside each. */
export const CONSENT_VERSION = 2;

/** A choice about every bit. */
export const fullChoice = (mask: number): Choice => ({ set: mask, clear: ~mask & 0xff });

export const isFull = ({ set, clear }: Choice): boolean => (set | clear) === 0xff;

/** The mask that a choice makes of a default. */
export const maskOf = ({ set, clear }: Choice, byDefault: number): number => (byDefault & ~clear) | set;

// Compares the worth of a total with that of its lines, as far as both name their currency.

import type { EventReceived } from "../../../schemas/generated.ts";
import { DEFAULT_CURRENCY, type Line, rowOf } from "../order.ts";
import { namesCurrency } from "../props.ts";
import { inDigitsOf } from "../spread.ts";

/** Shops round each line, so their lines may come to a little more or less than their total. */
export const TOLERANCE_MINOR = 2n;

export interface Worth {
  readonly value_minor: bigint | null;
  readonly currency: string;
  /** False: the currency is the default one, and gives way to one that is named. */
  readonly isNamed: boolean;
}

export const worthOfEvent = (event: EventReceived): Worth => ({
  value_minor: event.value_minor,
  currency: event.currency ?? DEFAULT_CURRENCY,
  isNamed: namesCurrency(event),
});
export const worthOfLine = (line: Line): Worth => {
  const worth = worthOfEvent(rowOf(line).event);
  return { ...worth, isNamed: worth.isNamed || line.has_currency };
};

/** True if the parts come to the whole, also if the whole or its only part has no amount. */
export const isWorthOf = (parts: readonly Worth[], whole: Worth, tolerance = TOLERANCE_MINOR): boolean => {
  const [only, ...others] = parts;
  if (whole.value_minor === null || (others.length === 0 && only?.value_minor === null)) return true;
  const { currency } = [whole, ...parts].find(({ isNamed }) => isNamed) ?? whole;
  const minorOf = ({ value_minor, currency: own, isNamed }: Worth): bigint | null => {
    const minor = value_minor === null || value_minor < 0n ? 0n : value_minor;
    return own === currency ? minor : isNamed ? null : inDigitsOf(minor, currency);
  };
  const sums = parts.map(minorOf);
  const sum = minorOf(whole);
  if (sum === null || sums.includes(null)) return false;
  const apart = sums.reduce<bigint>((all, minor) => all + minor!, 0n) - sum;
  return (apart < 0n ? -apart : apart) <= tolerance * BigInt(parts.length);
};

// Derived figures, each computed exactly in integers and rounded once, half to even.
import { digitsOf, divideHalfEven } from "../../../domain/money.ts";

const FOUR_DIGITS = 10_000n;

/** Returns `part` / `all` with four decimals; null when `all` is zero. */
export const ratio = (part: bigint | number, all: bigint | number): number | null =>
  BigInt(all) === 0n ? null : Number(divideHalfEven(BigInt(part) * FOUR_DIGITS, BigInt(all))) / Number(FOUR_DIGITS);

/** Returns the relative change against the previous value; null when that was zero. */
export const delta = (current: bigint | number, previous: bigint | number): number | null =>
  ratio(BigInt(current) - BigInt(previous), previous);

/** Returns an amount per piece, with `more` digits than the currency has; null for no pieces. */
export const each = (minor: bigint, pieces: number, currency: string, more = 0): string | null => {
  if (pieces === 0) return null;
  const digits = (digitsOf(currency) ?? 2) + more;
  const rounded = divideHalfEven(minor * 10n ** BigInt(more), BigInt(pieces));
  const sign = rounded < 0n ? "-" : "";
  const text = (rounded < 0n ? -rounded : rounded).toString().padStart(digits + 1, "0");
  return digits === 0 ? `${sign}${text}` : `${sign}${text.slice(0, -digits)}.${text.slice(-digits)}`;
};

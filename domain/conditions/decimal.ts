// Compares an amount in minor units with a number that a person wrote, without rounding.
/** The value units / 10^digits. */
export interface Decimal {
  readonly units: bigint;
  readonly digits: number;
}

/** Matches every form that String(number) produces. */
const shortest = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/;

/**
 * The shortest decimal that a finite number prints as: 0.1 is one tenth. Throws RangeError on NaN
 * and infinities.
 */
export const decimalOf = (value: number): Decimal => {
  const match = shortest.exec(String(value));
  if (match === null) throw new RangeError(`not a finite number: ${value}`);
  const [, sign, whole, fraction = "", exponent = "0"] = match;
  const units = BigInt(`${sign}${whole}${fraction}`);
  const digits = fraction.length - Number(exponent);
  return digits >= 0 ? { units, digits } : { units: units * 10n ** BigInt(-digits), digits: 0 };
};

/** No currency has more decimals (ISO 4217). */
const mostDigits = 4;

/**
 * Returns a function that compares an amount of `minor` units in a currency with `digits` decimals
 * to the number: negative if below, 0 if equal, positive if above. The number is scaled once for
 * each possible number of decimals.
 */
export const comparedTo = (value: number): ((minor: bigint, digits: number) => number) => {
  const number = decimalOf(value);
  const scales = Array.from({ length: mostDigits + 1 }, (_, digits) => ({
    minorTimes: 10n ** BigInt(Math.max(0, number.digits - digits)),
    limit: number.units * 10n ** BigInt(Math.max(0, digits - number.digits)),
  }));
  return (minor, digits) => {
    const { minorTimes, limit } = scales[digits]!;
    const amount = minor * minorTimes;
    return amount < limit ? -1 : amount > limit ? 1 : 0;
  };
};

// Compares an amount in minor units with a number that a person wrote, without a rounding in
// between.
/** units / 10^digits */
export interface Decimal {
  readonly units: bigint;
  readonly digits: number;
}

/** All forms that String(number) takes. */
const shortest = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/;

/**
 * The shortest decimal that stands for a finite number: 0.1 is one tenth. Throws RangeError on NaN
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

/** No currency has more (ISO 4217). */
const mostDigits = 4;

/**
 * Says how an amount of `minor` units of a currency with `digits` decimals stands to the number:
 * negative below it, 0 equal, positive above. Both sides are brought to one scale when the
 * comparison is made, once for each number of decimals.
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

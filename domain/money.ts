// Amounts as bigint minor units: the accepted currencies with their digits (ISO 4217, list one),
// parsing, division (half to even), splitting without a remainder, and printing.

/**
 * Codes without minor units (gold, test codes, XXX "no currency") are left out, because an amount
 * in them has no meaning.
 */
const BY_DIGITS: Readonly<Record<number, string>> = {
  0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
  2:
    "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD " +
    "CDF CHE CHF CHW CNY COP COU CRC CUP CVE CZK " +
    "DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR " +
    "JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD " +
    "LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN " +
    "PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR " +
    "SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU " +
    "UZS VED VES WST XCD XCG YER ZAR ZMW ZWG",
  3: "BHD IQD JOD KWD LYD OMR TND",
  4: "CLF UYW",
};
const digits = new Map(
  Object.entries(BY_DIGITS).flatMap(([count, codes]) =>
    codes.split(" ").map((code): [string, number] => [code, Number(count)]),
  ),
);

/** Every code, grouped by its number of decimals. */
export const codesByDigits: ReadonlyMap<number, readonly string[]> = new Map(
  Object.entries(BY_DIGITS).map(([count, codes]) => [Number(count), codes.split(" ")]),
);

/**
 * The number of decimals of a currency. Undefined if it is not a currency. Codes are upper case.
 */
export const digitsOf = (currency: string): number | undefined => digits.get(currency);

/** A parsed amount. `isRounded` means that the number had more digits than its currency. */
export type Amount =
  | { readonly kind: "amount"; readonly minor: bigint; readonly isRounded: boolean }
  | { readonly kind: "bad_amount"; readonly why: string };

/**
 * 10^15 minor units. This is still exact as a JSON number (2^53 is 9.007 * 10^15), and 9,000 of the
 * largest amounts fit into a 64-bit sum.
 */
export const MAX_MINOR = 10n ** 15n;

const DECIMAL = /^(-?)(\d{1,20})(?:\.(\d{1,20}))?$/;
/** Matches every form that String(number) produces: digits, a fraction, an exponent. */
const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/;
const powersOfTen = Array.from({ length: 60 }, (_, n) => 10n ** BigInt(n));
const bad = (why: string): Amount => ({ kind: "bad_amount", why });

/**
 * Converts a sender's amount to minor units of `currency`. A number is read as its shortest decimal
 * and rounded half to even to the currency's digits. A string must be plain decimal with no more
 * digits than the currency has. Both signs are accepted, so a caller that needs a positive amount
 * must check. Throws RangeError on an unknown currency, which callers check first.
 */
export const toMinor = (value: number | string, currency: string): Amount => {
  const digits = digitsOf(currency);
  if (digits === undefined) throw new RangeError(`unknown currency: ${currency}`);
  return typeof value === "number" ? minorOfNumber(value, digits) : minorOfText(value, digits);
};

const minorOfNumber = (value: number, digits: number): Amount => {
  if (Number.isSafeInteger(value)) return inRange(BigInt(value) * powersOfTen[digits]!, false);
  if (!Number.isFinite(value)) return bad("is not a finite number");
  if (Math.abs(value) >= 1e15) return bad("is too large");
  // The fast path for nearly every amount. Decimals of up to 15 digits map to distinct doubles, so
  // if rounding gives back the same double, it is the exact amount.
  const scale = 10 ** digits;
  const nearest = Math.round(value * scale);
  if (nearest / scale === value && Math.abs(nearest) < 1e15) return inRange(BigInt(nearest), false);
  const [, sign, whole, fraction = "", exponent = "0"] = NUMBER.exec(String(value))!;
  const units = BigInt(`${sign}${whole}${fraction}`);
  // value = units * 10^(exponent - length of fraction). Below 10^15 the exponent is never positive
  // here, and tiny values round to zero.
  const shift = fraction.length - Number(exponent) - digits;
  if (shift <= 0) return inRange(units * powersOfTen[-shift]!, false);
  if (shift >= powersOfTen.length) return { kind: "amount", minor: 0n, isRounded: true };
  const divisor = powersOfTen[shift]!;
  return inRange(divideHalfEven(units, divisor), units % divisor !== 0n);
};

const minorOfText = (value: string, digits: number): Amount => {
  const match = DECIMAL.exec(value);
  if (match === null) return bad("is not a plain decimal number like 1234.50");
  const [, sign, whole, fraction = ""] = match;
  if (fraction.length > digits) return bad(`has more than the ${digits} decimals of its currency`);
  return inRange(BigInt(`${sign}${whole}${fraction.padEnd(digits, "0")}`), false);
};

const inRange = (minor: bigint, isRounded: boolean): Amount =>
  minor > MAX_MINOR || minor < -MAX_MINOR ? bad("is too large") : { kind: "amount", minor, isRounded };

/**
 * Prints the amount with its currency's decimals, e.g. "1234.50". `toMinor` reads it back
 * unchanged. Throws RangeError on an unknown currency.
 */
export const toDecimal = (minor: bigint, currency: string): string => {
  const digits = digitsOf(currency);
  if (digits === undefined) throw new RangeError(`unknown currency: ${currency}`);
  const sign = minor < 0n ? "-" : "";
  const text = (minor < 0n ? -minor : minor).toString().padStart(digits + 1, "0");
  return digits === 0 ? `${sign}${text}` : `${sign}${text.slice(0, -digits)}.${text.slice(-digits)}`;
};

/**
 * The quotient rounded to the nearest integer, with halves to the even one (IEEE 754
 * roundTiesToEven). Throws RangeError when dividing by zero.
 */
export const divideHalfEven = (numerator: bigint, denominator: bigint): bigint => {
  const [over, under] = denominator < 0n ? [-numerator, -denominator] : [numerator, denominator];
  const quotient = over / under;
  const rest = over % under;
  const twice = (rest < 0n ? -rest : rest) * 2n;
  if (twice < under || (twice === under && quotient % 2n === 0n)) return quotient;
  return over < 0n ? quotient - 1n : quotient + 1n;
};

/**
 * Splits `total` in proportion to the weights, so that the parts add up exactly (largest remainder;
 * of equal remainders the earlier part gets the unit).
 * Each part is within one unit of its exact share and has the sign of the total. Weights are zero
 * or more; if all are zero, they count as equal. Throws RangeError on a negative weight, and if
 * there are no parts for a non-zero total.
 */
export const split = (total: bigint, weights: readonly bigint[]): readonly bigint[] => {
  if (weights.some((weight) => weight < 0n)) throw new RangeError("a negative weight");
  if (weights.length === 0 && total !== 0n) throw new RangeError("nothing to split an amount into");
  const given = weights.reduce((sum, weight) => sum + weight, 0n);
  const shares = given === 0n ? weights.map(() => 1n) : weights;
  const sum = given === 0n ? BigInt(weights.length) : given;
  const size = total < 0n ? -total : total;
  const parts = shares.map((weight) => (size * weight) / sum);
  const remainders = shares.map((weight, index) => ({ index, rest: (size * weight) % sum }));
  remainders.sort((a, b) => (a.rest === b.rest ? a.index - b.index : a.rest > b.rest ? -1 : 1));
  let left = size - parts.reduce((all, part) => all + part, 0n);
  for (const { index } of remainders) {
    if (left === 0n) break;
    parts[index] = parts[index]! + 1n;
    left -= 1n;
  }
  return total < 0n ? parts.map((part) => -part) : parts;
};

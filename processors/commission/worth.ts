// What a contract gives for one sale before limits: an amount with its receipt, or nothing with a
// reason; and the contract types that value each sale on its own.
import { divideHalfEven, toDecimal } from "../../domain/money.ts";
import type { Contract } from "../../domain/reference/reference.ts";
import type { Conversion } from "../../schemas/generated.ts";

/** Every number that a formula used, for the receipt. Amounts are minor units as text. */
export type Inputs = Readonly<Record<string, unknown>>;

/** Why a conversion earns nothing. */
export type NothingReason =
  | "no_contract"
  | "incomplete_contract"
  | "currency_mismatch"
  | "zero_value"
  | "rounds_to_zero"
  | "cap_reached"
  | "months_over"
  | "below_first_tier";

export interface SaleWorth {
  readonly kind: "worth";
  readonly amountMinor: bigint;
  readonly formula: string;
  readonly inputs: Inputs;
}
export interface NoWorth {
  readonly kind: "nothing";
  readonly reason: NothingReason;
  readonly inputs: Inputs;
}
/**
 * A contract type that values each sale on its own. Amounts are minor units of the sale's currency.
 */
export type SaleType = (sale: Conversion, contract: Contract) => SaleWorth | NoWorth;

/** Rates are parts per million, and so are partly refunded sales. */
export const WHOLE_PPM = 1_000_000n;
/** The largest amount of a ledger entry, a signed 64-bit integer. */
export const LEDGER_MAX = 2n ** 63n - 1n;

export const nothing = (reason: NothingReason, inputs: Inputs = {}): NoWorth => ({ kind: "nothing", reason, inputs });
export const smaller = (a: bigint, b: bigint): bigint => (a < b ? a : b);
export const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b);

/** The share of a value in minor units, rounded half to even. */
const shareOf = (valueMinor: bigint, ratePpm: bigint): bigint => divideHalfEven(valueMinor * ratePpm, WHOLE_PPM);

/** Writes a fixed-point number without trailing zeros: 125000n with 4 decimals is "12.5". */
export const plain = (value: bigint, decimals: number): string => {
  const digits = value.toString().padStart(decimals + 1, "0");
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`.replace(/\.?0+$/, "");
};
/** Writes a rate as contracts do: 125000n is "12.5 %". */
export const percentOf = (ratePpm: bigint): string => `${plain(ratePpm, 4)} %`;
/** Writes an amount as contracts do: "1234.50 MXN". */
export const moneyOf = (minor: bigint, currency: string): string => `${toDecimal(minor, currency)} ${currency}`;

/** A fixed amount for each sale, whatever its value. */
export const flat: SaleType = ({ currency }, { amount_minor }) => {
  if (amount_minor === null) return nothing("incomplete_contract");
  return {
    kind: "worth",
    amountMinor: amount_minor,
    formula: `amount = ${moneyOf(amount_minor, currency)} for each sale`,
    inputs: { currency, flat_minor: amount_minor.toString() },
  };
};

/** A share of the line's value, in the currency of the sale. */
export const percent: SaleType = ({ line_value_minor, currency }, { rate_ppm }) => {
  if (rate_ppm === null) return nothing("incomplete_contract");
  if (line_value_minor === 0n) return nothing("zero_value");
  return {
    kind: "worth",
    amountMinor: shareOf(line_value_minor, rate_ppm),
    formula: `amount = line value x ${percentOf(rate_ppm)}, rounded half to even to the minor unit`,
    inputs: { line_value_minor: line_value_minor.toString(), currency, rate_ppm: rate_ppm.toString() },
  };
};

/** A fixed amount for each sale and a share of its value on top. */
export const hybrid: SaleType = ({ line_value_minor, currency }, { rate_ppm, amount_minor }) => {
  if (rate_ppm === null || amount_minor === null) return nothing("incomplete_contract");
  return {
    kind: "worth",
    amountMinor: amount_minor + shareOf(line_value_minor, rate_ppm),
    formula:
      `amount = ${moneyOf(amount_minor, currency)} + line value x ${percentOf(rate_ppm)}, the product ` +
      "rounded half to even to the minor unit",
    inputs: {
      line_value_minor: line_value_minor.toString(),
      currency,
      flat_minor: amount_minor.toString(),
      rate_ppm: rate_ppm.toString(),
    },
  };
};

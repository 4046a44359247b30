// Computes the result of a contract for one sale: an amount with its receipt, or nothing with a
// reason. Holds the contract types that value each sale separately, and the limits of a sale and of
// a period.
import { divideHalfEven, toDecimal } from "../../domain/money.ts";
import type { Cap, Contract } from "../../domain/reference/reference.ts";
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
  | "below_first_tier"
  | "paid_with_order";

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

/** A fixed amount for each sale, independent of its value. */
export const flat: SaleType = ({ currency }, { amount_minor, per }) => {
  if (amount_minor === null) return nothing("incomplete_contract");
  return {
    kind: "worth",
    amountMinor: amount_minor,
    formula: `amount = ${moneyOf(amount_minor, currency)} for each ${per === "order" ? "order" : "sale"}`,
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
export const hybrid: SaleType = ({ line_value_minor, currency }, { rate_ppm, amount_minor, per }) => {
  if (rate_ppm === null || amount_minor === null) return nothing("incomplete_contract");
  return {
    kind: "worth",
    amountMinor: amount_minor + shareOf(line_value_minor, rate_ppm),
    formula:
      `amount = ${moneyOf(amount_minor, currency)}${per === "order" ? " an order" : ""} + ` +
      `line value x ${percentOf(rate_ppm)}, the product ` +
      "rounded half to even to the minor unit",
    inputs: {
      line_value_minor: line_value_minor.toString(),
      currency,
      flat_minor: amount_minor.toString(),
      rate_ppm: rate_ppm.toString(),
    },
  };
};

const PERIOD_WORDS = { day: "a day", month: "a month", lifetime: "in all" } as const;

/**
 * Applies the minimum and the maximum of one sale. A sale worth nothing gets no minimum. An amount
 * above the limit of a ledger entry becomes that limit.
 */
export const bounded = (
  worth: SaleWorth,
  valueMinor: bigint,
  { min_minor, max_minor, currency, per }: Contract,
): SaleWorth => {
  const each = per === "order" ? " an order" : "";
  let { amountMinor, formula, inputs } = worth;
  if (min_minor !== null && currency !== null && valueMinor > 0n) {
    amountMinor = larger(amountMinor, min_minor);
    formula += `, at least ${moneyOf(min_minor, currency)}${each}`;
    inputs = { ...inputs, min_minor: min_minor.toString() };
  }
  if (max_minor !== null && currency !== null) {
    amountMinor = smaller(amountMinor, max_minor);
    formula += `, at most ${moneyOf(max_minor, currency)}${each}`;
    inputs = { ...inputs, max_minor: max_minor.toString() };
  }
  if (amountMinor > LEDGER_MAX) inputs = { ...inputs, ledger_max_minor: LEDGER_MAX.toString() };
  return { kind: "worth", amountMinor: smaller(amountMinor, LEDGER_MAX), formula, inputs };
};

/** The rest of a cap once `paidMinor` of it is used, at least 0. */
const roomOf = (cap: Cap, paidMinor: bigint): bigint => larger(cap.amount_minor - paidMinor, 0n);

/** Describes a cap in the words of a receipt. */
export const capWords = (cap: Cap, currency: string, paidMinor: bigint) => ({
  formula: `, at most what is left of ${moneyOf(cap.amount_minor, currency)} ${PERIOD_WORDS[cap.period]}`,
  inputs: {
    cap_period: cap.period,
    cap_minor: cap.amount_minor.toString(),
    cap_used_before_minor: paidMinor.toString(),
  },
});

/**
 * Limits the amount to the rest of the cap after `paidMinor`. If nothing is left, the sale earns
 * nothing.
 */
export const capped = (worth: SaleWorth, cap: Cap, currency: string, paidMinor: bigint): SaleWorth | NoWorth => {
  const words = capWords(cap, currency, paidMinor);
  const inputs = { ...worth.inputs, ...words.inputs };
  const room = roomOf(cap, paidMinor);
  if (room === 0n && worth.amountMinor > 0n) return nothing("cap_reached", inputs);
  return {
    kind: "worth",
    amountMinor: smaller(worth.amountMinor, room),
    formula: worth.formula + words.formula,
    inputs,
  };
};

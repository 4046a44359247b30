// Limits that a contract adds to its type: a minimum and maximum for each sale, and a cap on the
// sum of a period.
import type { Cap, Contract } from "../../domain/reference/reference.ts";
import { LEDGER_MAX, larger, moneyOf, type NoWorth, nothing, type SaleWorth, smaller } from "./worth.ts";

const PERIOD_WORDS = { day: "a day", month: "a month", lifetime: "in all" } as const;

/**
 * Applies the minimum and the maximum of one sale. A sale worth nothing gets no minimum. An amount
 * above the limit of a ledger entry becomes that limit.
 */
export const bounded = (
  worth: SaleWorth,
  valueMinor: bigint,
  { min_minor, max_minor, currency }: Contract,
): SaleWorth => {
  let { amountMinor, formula, inputs } = worth;
  if (min_minor !== null && currency !== null && valueMinor > 0n) {
    amountMinor = larger(amountMinor, min_minor);
    formula += `, at least ${moneyOf(min_minor, currency)}`;
    inputs = { ...inputs, min_minor: min_minor.toString() };
  }
  if (max_minor !== null && currency !== null) {
    amountMinor = smaller(amountMinor, max_minor);
    formula += `, at most ${moneyOf(max_minor, currency)}`;
    inputs = { ...inputs, max_minor: max_minor.toString() };
  }
  if (amountMinor > LEDGER_MAX) inputs = { ...inputs, ledger_max_minor: LEDGER_MAX.toString() };
  return { kind: "worth", amountMinor: smaller(amountMinor, LEDGER_MAX), formula, inputs };
};

/** What is left of a cap once `paidMinor` of it is used, at least 0. */
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
 * Limits the amount to what the cap has left after `paidMinor`. If nothing is left, the sale earns
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

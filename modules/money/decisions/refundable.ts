// Computes how much of a sale's lines can still be refunded, and checks a refund against it.
import { digitsOf, toDecimal, toMinor } from "../../../domain/money.ts";
import type { Line, OrderState, Refund } from "../../../processors/settle/order.ts";

export interface RefundableAmount {
  readonly currency: string;
  readonly minor: bigint;
}

/** The amounts by currency, in the order of the lines. */
export const leftOf = (lines: readonly Line[]): readonly RefundableAmount[] =>
  [...new Set(lines.map(({ currency }) => currency))].map((currency) => ({
    currency,
    minor: lines.reduce(
      (sum, line) => (line.currency === currency ? sum + line.value_minor - line.refunded_minor : sum),
      0n,
    ),
  }));

export type Refundable =
  | { readonly kind: "ok"; readonly amount: { readonly minor: bigint; readonly currency: string } | null }
  | {
      readonly kind: "refused";
      readonly field: "amount" | "currency" | null;
      readonly code: "bad_amount" | "required" | "not_of_sale" | "already_refunded" | "refund_exceeds";
      readonly detail: string;
    };

const refused = (
  field: "amount" | "currency" | null,
  code: Extract<Refundable, { readonly kind: "refused" }>["code"],
  detail: string,
): Refundable => ({ kind: "refused", field, code, detail });

/** `amount` is a decimal; undefined: everything that is left. */
export interface AskedBack {
  readonly decision_id: string;
  readonly amount?: string | undefined;
  readonly currency?: string | undefined;
}

/**
 * `lines` are the current lines, at least one, of the order with these refunds. A caller that did
 * not get the answer may repeat a refund that was accepted; the refund then stays as it is.
 */
export const refundable = (
  { lines, refunds }: Pick<OrderState, "lines" | "refunds">,
  { decision_id, amount, currency }: AskedBack,
): Refundable => {
  const taken = refunds.find(({ event_id }) => event_id === decision_id);
  if (taken !== undefined) return { kind: "ok", amount: amountTaken(taken) };
  const left = leftOf(lines);
  const inWords = left.map((one) => `${toDecimal(one.minor, one.currency)} ${one.currency}`).join(" and ");
  if (lines.every(({ is_returned }) => is_returned))
    return refused(null, "already_refunded", "all of it has been given back");
  if (amount === undefined)
    return currency === undefined
      ? { kind: "ok", amount: null }
      : refused("amount", "required", "a currency says nothing without an amount");
  if (currency === undefined && left.length > 1)
    return refused("currency", "required", `there is ${inWords} left: name the currency`);
  const one = left.find((of) => of.currency === (currency ?? left[0]!.currency));
  if (one === undefined || digitsOf(one.currency) === undefined)
    return refused("currency", "not_of_sale", `the sale is in ${left.map((of) => of.currency).join(", ")}`);
  const asked = toMinor(amount, one.currency);
  if (asked.kind === "bad_amount") return refused("amount", "bad_amount", asked.why);
  if (asked.minor <= 0n) return refused("amount", "bad_amount", "give back more than nothing");
  if (asked.minor > one.minor) return refused(null, "refund_exceeds", `${inWords} is left of it`);
  return { kind: "ok", amount: { minor: asked.minor, currency: one.currency } };
};

const amountTaken = ({ amount_minor: minor, currency }: Refund) =>
  minor === null || currency === null ? null : { minor, currency };

// A fixed amount for each sale and a share of its value on top.
import { moneyOf, nothing, percentOf, type SaleType, shareOf } from "../worth.ts";

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

// A share of the line's value, in the currency of the sale.
import { nothing, percentOf, type SaleType, shareOf } from "../worth.ts";

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

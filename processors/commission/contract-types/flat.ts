// A fixed amount for each sale, whatever its value.
import { moneyOf, nothing, type SaleType } from "../worth.ts";

export const flat: SaleType = ({ currency }, { amount_minor }) => {
  if (amount_minor === null) return nothing("incomplete_contract");
  return {
    kind: "worth",
    amountMinor: amount_minor,
    formula: `amount = ${moneyOf(amount_minor, currency)} for each sale`,
    inputs: { currency, flat_minor: amount_minor.toString() },
  };
};

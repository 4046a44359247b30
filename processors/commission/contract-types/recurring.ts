// Pays for the sales of a customer, as a share or an amount each, for some months after the first
// sale or for life.

import { dayOf, monthsAfter, startOfDay } from "../../../domain/calendar.ts";
import type { Contract } from "../../../domain/reference/reference.ts";
import type { Conversion } from "../../../schemas/generated.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { flat, type NoWorth, nothing, percent, type SaleWorth } from "../worth.ts";

/**
 * `since` is the start of the months: the customer's earliest sale that was credited to this
 * partner under such a contract.
 */
export interface Recurring {
  readonly answer: SaleWorth | NoWorth;
  readonly since: UnixMs;
}

/** The day on which the months end that began with a sale. A sale on that day earns nothing. */
export const endOfMonths = (since: UnixMs, months: number): string => monthsAfter(dayOf(since), months);
/** True if a sale lies behind the end of its customer's months. */
export const isAfterMonths = (at: UnixMs, since: UnixMs, months: number): boolean =>
  at >= startOfDay(endOfMonths(since, months));

/**
 * `since` is the remembered start. The months end when their last day begins in Mexico City, so a
 * sale on that day earns nothing.
 */
export const recurring = (sale: Conversion, contract: Contract, since: UnixMs | undefined): Recurring => {
  const first = since === undefined ? sale.occurred_at : Math.min(since, sale.occurred_at);
  if ((contract.rate_ppm === null) === (contract.amount_minor === null))
    return { answer: nothing("incomplete_contract"), since: first };
  const worth = contract.rate_ppm === null ? flat(sale, contract) : percent(sale, contract);
  const { months } = contract;
  const until = months === null ? null : endOfMonths(first, months);
  const counted = { customer_since: dayOf(first), months, paid_until: until };
  if (months !== null && isAfterMonths(sale.occurred_at, first, months))
    return { answer: nothing("months_over", counted), since: first };
  if (worth.kind === "nothing") return { answer: worth, since: first };
  const span =
    months === null
      ? "for every sale of the customer"
      : `for ${months} ${months === 1 ? "month" : "months"} from the customer's first sale on`;
  return {
    answer: { ...worth, formula: `${worth.formula}; ${span}`, inputs: { ...worth.inputs, ...counted } },
    since: first,
  };
};

// Which sales of a customer are remembered because their months may turn out to begin earlier.
import { type Contract, contractTypeOf } from "../../../domain/reference/reference.ts";
import type { Conversion } from "../../../schemas/generated.ts";
import {
  type CommissionMemory,
  customerIn,
  customerKey,
  customerMonthIn,
  customerMonthKey,
  monthName,
  orderIn,
  orderKey,
  SALES_OF_MONTH,
  SALES_TOGETHER,
} from "../memory.ts";
import type { EarnedSale } from "../memory-format.ts";
import type { Customer, CustomerMonth, CustomerSale } from "./format.ts";

/** A customer of whom no sale is known yet. */
export const newCustomer = ({ segment }: Contract, since: number): Customer => ({
  ...{ is: "customer", since, contract_segment: segment, sales: [], months: [] },
});

/** True if a sale shares the amounts of its order, so that it may earn more later. */
const isInOrder = ({ order_id, conversion_id }: Conversion, contract: Contract, memory: CommissionMemory): boolean =>
  order_id !== null &&
  orderIn(memory, orderKey(order_id, contract.segment, contract.event_type))?.lines.some(
    (one) => one.conversion_id === conversion_id,
  ) === true;

interface Listing {
  readonly memory: CommissionMemory;
  /** Nothing to remember, remembered, or one more than are remembered. */
  readonly kept: "no" | "yes" | "too_many";
}
/** Remembers a sale that would lose what it earns if an earlier first sale of its customer came. */
export const listed = (sale: Conversion, contract: Contract, earns: boolean, memory: CommissionMemory): Listing => {
  const { months, segment, event_type } = contract;
  const isShared = isInOrder(sale, contract, memory);
  if (months === null || sale.customer === "" || !(earns || isShared)) return { memory, kept: "no" };
  const key = customerKey(segment, event_type, sale.customer);
  const customer = customerIn(memory, key);
  if (customer === undefined) return { memory, kept: "no" };
  const { conversion_id, occurred_at: at, order_id } = sale;
  const one: CustomerSale = { conversion_id, at, months, order_id: isShared ? order_id : null };
  const known = { ...customer, contract_segment: segment };
  if (customer.sales.length < SALES_TOGETHER)
    return { memory: { ...memory, [key]: { ...known, sales: [...customer.sales, one] } }, kept: "yes" };
  const month = monthName(at);
  const monthKey = customerMonthKey(month, segment, event_type, sale.customer);
  const others = customerMonthIn(memory, monthKey)?.sales ?? [];
  if (others.length >= SALES_OF_MONTH) return { memory, kept: "too_many" };
  const ofMonth: CustomerMonth = { is: "customer_month", contract_segment: segment, sales: [...others, one] };
  const inMonths = customer.months.includes(month)
    ? customer
    : { ...known, months: [...customer.months, month].sort() };
  return { memory: { ...memory, [key]: inMonths, [monthKey]: ofMonth }, kept: "yes" };
};

/** The customer's remembered sales without those that `isLeft` names, and all that were. */
export const withoutSales = (
  key: string,
  { event_type, customer: name }: Pick<Conversion, "event_type" | "customer">,
  memory: CommissionMemory,
  isLeft: (one: CustomerSale) => boolean,
): { readonly memory: CommissionMemory; readonly left: readonly CustomerSale[] } => {
  const customer = customerIn(memory, key)!;
  const left = customer.sales.filter(isLeft);
  let months = customer.months;
  let met = memory;
  for (const month of customer.months) {
    const monthKey = customerMonthKey(month, customer.contract_segment, contractTypeOf(event_type), name);
    const kept = customerMonthIn(memory, monthKey);
    const going = kept?.sales.filter(isLeft) ?? [];
    if (kept === undefined || going.length === 0) continue;
    left.push(...going);
    const sales = kept.sales.filter((one) => !going.includes(one));
    if (sales.length === 0) months = months.filter((one) => one !== month);
    met = { ...met, [monthKey]: { ...kept, sales } };
  }
  if (left.length === 0) return { memory, left };
  const sales = customer.sales.filter((one) => !left.includes(one));
  return { memory: { ...met, [key]: { ...customer, sales, months } }, left };
};

/** A sale of which nothing is left can lose nothing. */
export const withoutSale = (change: Conversion, sale: EarnedSale, memory: CommissionMemory): CommissionMemory => {
  if (sale.line === null) return memory;
  const key = customerKey(sale.contract_segment, contractTypeOf(change.event_type), change.customer);
  if (customerIn(memory, key) === undefined) return memory;
  return withoutSales(key, change, memory, (one) => one.conversion_id === change.conversion_id).memory;
};

// What each line of an order earns where the contract's amounts pay once an order: the first line
// that stands carries them, and a later line earns what the order earns with it less without it.

import { isPlaceholder } from "../../../domain/ids.ts";
import { type Contract, contractTypeOf } from "../../../domain/reference/reference.ts";
import type { Conversion } from "../../../schemas/generated.ts";
import { type CommissionMemory, orderIn, orderKey } from "../memory.ts";
import { bounded, LEDGER_MAX, moneyOf, percentOf, type SaleWorth } from "../worth.ts";
import { groupOf, type OrderLine, type OrderLines, type OrderPay, type SoldLine } from "./order-format.ts";
import { amountOf, carrierOf, type OrderPart, type PaidLine, partBehind } from "./order-parts.ts";

/** Leads and installs have no lines: each stands by itself, whatever order it names. */
const hasOrder = ({ order_id, event_type }: Pick<Conversion, "order_id" | "event_type">): boolean =>
  order_id !== null && !isPlaceholder(order_id) && !["lead_submit", "install"].includes(contractTypeOf(event_type));

/** True if the contract names amounts that pay once an order. */
const paysOnce = ({ per, type, amount_minor, min_minor, max_minor }: Contract): boolean =>
  per === "order" && (type === "tiered" || [amount_minor, min_minor, max_minor].some((one) => one !== null));

export interface OfOrder {
  readonly key: string;
  readonly order: OrderLines;
}
/** The remembered lines of a sale's order, or null if each sale is paid by itself. */
export const orderFor = (sale: Conversion, contract: Contract, memory: CommissionMemory): OfOrder | null => {
  if (!paysOnce(contract) || !hasOrder(sale)) return null;
  const { segment: contract_segment, event_type: counts_as } = contract;
  const key = orderKey(sale.order_id!, contract_segment, counts_as);
  const none: OrderLines = { is: "order", contract_segment, counts_as, had_value: [], lines: [] };
  return { key, order: orderIn(memory, key) ?? none };
};
/**
 * The place of a line in its order. A line of 0 carries amounts only in an order that has had no
 * line of value, so that refunds of what was paid take the amounts with it. `gaveWay` is the line
 * of 0 that carried them until now.
 */
export const placeFor = <Line extends OrderLine>({ key, order }: OfOrder, line: Line) => {
  const isOfGroup = (one: OrderLine): one is Line => groupOf(one) === groupOf(line);
  const own = order.lines.filter(isOfGroup);
  const hadValue = order.had_value.includes(groupOf(line)) || own.some(({ value_minor }) => value_minor > 0n);
  const isWorthless = line.value_minor === 0n;
  if (hadValue || isWorthless) return { isLeftOut: hadValue && isWorthless, gaveWay: undefined, of: { key, order } };
  const lines = order.lines.filter((one) => !isOfGroup(one));
  return { isLeftOut: false, gaveWay: own[0], of: { key, order: { ...order, lines } } };
};
export const soldLine = (sale: Conversion): SoldLine => ({
  version: sale.version,
  at: sale.occurred_at,
  event_type: sale.event_type,
  segment: sale.segment,
  campaign_id: sale.campaign_id,
  currency: sale.currency,
});
export const lineFor = <Pays extends OrderPay | null>(
  sale: Conversion,
  pays: Pays,
): OrderLine & { readonly pays: Pays } => ({
  ...soldLine(sale),
  conversion_id: sale.conversion_id,
  value_minor: sale.line_value_minor,
  refunded_minor: 0n,
  pays,
});
export const withLine = ({ key, order }: OfOrder, line: OrderLine, memory: CommissionMemory): CommissionMemory => ({
  ...memory,
  [key]: { ...order, lines: [...order.lines, line] },
});

/** The amounts of the order in words, for a receipt. */
export const orderWords = ({ flat_minor, min_minor, max_minor }: OrderPay, currency: string): string => {
  const flat = flat_minor === 0n ? "" : `${moneyOf(flat_minor, currency)} + `;
  const min = min_minor === null ? "" : `, at least ${moneyOf(min_minor, currency)}`;
  const max = max_minor === null ? "" : `, at most ${moneyOf(max_minor, currency)}`;
  return `${flat}what the rates of its lines make, each rounded half to even${min}${max}`;
};
/** Every number of a line's part, for a receipt. */
export const partInputs = ({ line, ...part }: OrderPart, first: OrderPay): SaleWorth["inputs"] => ({
  currency: line.currency,
  line_value_minor: line.value_minor.toString(),
  line_rate_minor: line.pays!.rate_minor.toString(),
  order_rates_before_minor: part.rateBefore.toString(),
  order_value_before_minor: part.valueBefore.toString(),
  order_earned_before_minor: part.earnsBefore.toString(),
  order_earns_minor: part.earns.toString(),
  flat_minor: first.flat_minor.toString(),
  ...(first.min_minor === null ? {} : { min_minor: first.min_minor.toString() }),
  ...(first.max_minor === null ? {} : { max_minor: first.max_minor.toString() }),
  ...(part.earns === LEDGER_MAX ? { ledger_max_minor: LEDGER_MAX.toString() } : {}),
});

/** A sale as a line of its order, with the amounts of its contract. */
export const payingLine = (worth: SaleWorth, sale: Conversion, contract: Contract): PaidLine => {
  const { amount_minor, min_minor, max_minor, cap } = contract;
  const flat_minor = amount_minor ?? 0n;
  return lineFor(sale, { rate_minor: worth.amountMinor - flat_minor, flat_minor, min_minor, max_minor, cap });
};

/** What a sale earns in its order, within the order's minimum and maximum. */
export const joined = (
  worth: SaleWorth,
  line: PaidLine,
  contract: Contract,
  { order }: OfOrder,
): { readonly worth: SaleWorth; readonly isPaidBefore: boolean } => {
  const { rate_ppm } = contract;
  const alone = bounded(worth, line.value_minor, contract);
  const carrier = carrierOf(order.lines, line.currency);
  if (carrier === undefined) return { worth: alone, isPaidBefore: false };
  const part = partBehind(order.lines, line);
  const amountMinor = amountOf(part);
  return {
    worth: {
      kind: "worth",
      amountMinor,
      formula:
        `amount = what the order earns with this line (${orderWords(carrier.pays!, line.currency)}) less what it ` +
        `earned by the lines before it${rate_ppm === null ? "" : `; this line's rate is ${percentOf(rate_ppm)}`}`,
      inputs: { ...worth.inputs, ...partInputs(part, carrier.pays!) },
    },
    isPaidBefore: amountMinor === 0n && alone.amountMinor > 0n,
  };
};

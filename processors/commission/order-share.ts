// What each line of an order earns where the contract's amounts pay once an order: the first line
// that stands carries them, and a later line earns what the order earns with it less without it.

import { isWeakOrderId } from "../../domain/ids.ts";
import { type Contract, contractTypeOf } from "../../domain/reference/reference.ts";
import type { Conversion } from "../../schemas/generated.ts";
import { type CommissionMemory, orderIn, orderKey } from "./memory.ts";
import type { OrderLine, OrderLines, OrderPay } from "./order-format.ts";
import { bounded, LEDGER_MAX, larger, moneyOf, percentOf, type SaleWorth, smaller } from "./worth.ts";

/** Leads and installs have no lines: each stands by itself, whatever order it names. */
const hasOrder = ({ order_id, event_type }: Pick<Conversion, "order_id" | "event_type">): boolean =>
  order_id !== null && !isWeakOrderId(order_id) && !["lead_submit", "install"].includes(contractTypeOf(event_type));

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
  return { key, order: orderIn(memory, key) ?? { is: "order", contract_segment, counts_as, lines: [] } };
};
export const lineFor = (sale: Conversion, pays: OrderPay | null): OrderLine => ({
  conversion_id: sale.conversion_id,
  version: sale.version,
  at: sale.occurred_at,
  event_type: sale.event_type,
  segment: sale.segment,
  campaign_id: sale.campaign_id,
  currency: sale.currency,
  value_minor: sale.line_value_minor,
  refunded_minor: 0n,
  pays,
});
export const withLine = ({ key, order }: OfOrder, line: OrderLine, memory: CommissionMemory): CommissionMemory => ({
  ...memory,
  [key]: { ...order, lines: [...order.lines, line] },
});

/** What lines with these sums earn by the amounts of the line that carries them. */
const earnsBy = ({ flat_minor, min_minor, max_minor }: OrderPay, rateMinor: bigint, valueMinor: bigint): bigint => {
  let amountMinor = flat_minor + rateMinor;
  if (min_minor !== null && valueMinor > 0n) amountMinor = larger(amountMinor, min_minor);
  if (max_minor !== null) amountMinor = smaller(amountMinor, max_minor);
  return smaller(amountMinor, LEDGER_MAX);
};

export interface OrderPart {
  readonly line: OrderLine;
  /** What the rates of the lines before make, and the value of these lines. */
  readonly rateBefore: bigint;
  readonly valueBefore: bigint;
  readonly earnsBefore: bigint;
  readonly earns: bigint;
}
/** The lines that share amounts of one currency. Their parts sum to what the order earns. */
export const partsOf = (lines: readonly OrderLine[], currency: string): readonly OrderPart[] => {
  const parts: OrderPart[] = [];
  let [rate, value, earns] = [0n, 0n, 0n];
  let first: OrderPay | null = null;
  for (const line of lines) {
    if (line.pays === null || line.currency !== currency) continue;
    first ??= line.pays;
    const before = { rateBefore: rate, valueBefore: value, earnsBefore: earns };
    rate += line.pays.rate_minor;
    value += line.value_minor;
    earns = earnsBy(first, rate, value);
    parts.push({ line, ...before, earns });
  }
  return parts;
};
export const amountOf = ({ earns, earnsBefore }: OrderPart): bigint => earns - earnsBefore;
/** The line that carries the order's amounts. */
export const carrierOf = (lines: readonly OrderLine[], currency: string): OrderLine | undefined =>
  lines.find((one) => one.pays !== null && one.currency === currency);

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

/** Adds a sale to its order: what it earns there, within the order's minimum and maximum. */
export const joined = (
  worth: SaleWorth,
  sale: Conversion,
  contract: Contract,
  { order }: OfOrder,
): { readonly worth: SaleWorth; readonly line: OrderLine; readonly isPaidBefore: boolean } => {
  const { amount_minor, min_minor, max_minor, cap, rate_ppm } = contract;
  const flat_minor = amount_minor ?? 0n;
  const pays = { rate_minor: worth.amountMinor - flat_minor, flat_minor, min_minor, max_minor, cap };
  const line = lineFor(sale, pays);
  const alone = bounded(worth, sale.line_value_minor, contract);
  const carrier = carrierOf(order.lines, sale.currency);
  if (carrier === undefined) return { worth: alone, line, isPaidBefore: false };
  const part = partsOf([...order.lines, line], sale.currency).at(-1)!;
  const amountMinor = amountOf(part);
  return {
    worth: {
      kind: "worth",
      amountMinor,
      formula:
        `amount = what the order earns with this line (${orderWords(carrier.pays!, sale.currency)}) less what it ` +
        `earned by the lines before it${rate_ppm === null ? "" : `; this line's rate is ${percentOf(rate_ppm)}`}`,
      inputs: { ...worth.inputs, ...partInputs(part, carrier.pays!) },
    },
    line,
    isPaidBefore: amountMinor === 0n && alone.amountMinor > 0n,
  };
};

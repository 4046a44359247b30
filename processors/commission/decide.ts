// Applies a contract to a sale: its earnings, changes elsewhere in the month, and the new memory.

import type { Contract } from "../../domain/reference/reference.ts";
import type { Conversion, LedgerEntry } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { recurring } from "./contract-types/recurring.ts";
import { moveFirstSale } from "./customer/first-sale.ts";
import type { Customer } from "./customer/format.ts";
import { listed, newCustomer } from "./customer/sales.ts";
import {
  type CommissionMemory,
  countIn,
  customerIn,
  customerKey,
  periodKey,
  SALES_OF_MONTH,
  SALES_TOGETHER,
  withCount,
} from "./memory.ts";
import type { Volume } from "./memory-format.ts";
import type { Adjustment } from "./month.ts";
import { giveWay } from "./orders/order-move.ts";
import { joined, orderFor, payingLine, placeFor, withLine } from "./orders/order-share.ts";
import { earnByVolume } from "./volume.ts";
import {
  bounded,
  capped,
  flat,
  hybrid,
  type NothingReason,
  type NoWorth,
  nothing,
  percent,
  type SaleWorth,
} from "./worth.ts";

/**
 * The result of applying a contract to a sale: its earnings, changes elsewhere in the month, and
 * the new memory.
 */
interface ContractAnswer {
  readonly answer: SaleWorth | NoWorth;
  readonly adjustments: readonly Adjustment[];
  readonly units: Volume | null;
  readonly table: string | null;
  /** Entries of other sales: their months begin with this one, or they carried what it carries. */
  readonly entries: readonly LedgerEntry[];
  /** True if the months of this sale may turn out to begin earlier. */
  readonly isListed: boolean;
  readonly memory: CommissionMemory;
}

const uncounted = { adjustments: [], units: null, table: null, entries: [], isListed: false };

/**
 * True if the contract contains amounts. They are in its own currency and cannot be converted to
 * another one.
 */
const hasAmounts = ({ amount_minor, tiers, min_minor, max_minor, cap }: Contract): boolean =>
  amount_minor !== null || tiers.length > 0 || min_minor !== null || max_minor !== null || cap !== null;

/**
 * Contract types that value each sale on its own: first the value, then the limits, then the cap of
 * the period.
 */
const decideOne = (recorded: Recorded<Conversion>, contract: Contract, memory: CommissionMemory): ContractAnswer => {
  const { worth, entries, memory: known } = worthOf(recorded, contract, memory);
  const beside = { adjustments: [], units: null, table: null, entries, isListed: false, memory: known };
  const answered =
    worth.kind === "nothing" ? answerBeside(beside, worth) : inItsOrder(recorded, contract, worth, beside);
  return listing(recorded.data, contract, answered);
};

type Consequences = Omit<ContractAnswer, "answer">;
/** Field by field, because every sale passes here and a spread is several times as dear. */
const answerBeside = (
  { adjustments, units, table, entries, isListed, memory }: Consequences,
  answer: SaleWorth | NoWorth,
  after = memory,
): ContractAnswer => ({ answer, adjustments, units, table, entries, isListed, memory: after });

const inItsOrder = (
  recorded: Recorded<Conversion>,
  contract: Contract,
  worth: SaleWorth,
  beside: Consequences,
): ContractAnswer => {
  const sale = recorded.data;
  const order = orderFor(sale, contract, beside.memory);
  if (order === null) return withinCap(sale, contract, bounded(worth, sale.line_value_minor, contract), beside);
  const line = payingLine(worth, sale, contract);
  const { isLeftOut, gaveWay, of } = placeFor(order, line);
  if (isLeftOut) return answerBeside(beside, nothing("paid_with_order", worth.inputs));
  const cleared =
    gaveWay === undefined
      ? { entries: [], memory: beside.memory }
      : giveWay(recorded, gaveWay, line, of, beside.memory);
  const share = joined(worth, line, contract, of);
  const entries = [...beside.entries, ...cleared.entries];
  const met = { ...beside, entries, memory: withLine(of, line, cleared.memory) };
  if (share.isPaidBefore) return answerBeside(met, nothing("paid_with_order", share.worth.inputs));
  return withinCap(sale, contract, share.worth, met);
};

const withinCap = (sale: Conversion, contract: Contract, within: SaleWorth, beside: Consequences): ContractAnswer => {
  const { memory: met } = beside;
  const { cap, currency } = contract;
  if (cap === null || currency === null) return answerBeside(beside, within);
  const key = periodKey(cap.period, sale.occurred_at, contract.segment, contract.event_type);
  const count = countIn(met, key);
  const answer = capped(within, cap, currency, count.paid_minor);
  if (answer.kind === "nothing" || answer.amountMinor === 0n) return answerBeside(beside, answer);
  return answerBeside(
    beside,
    answer,
    withCount(met, key, { ...count, paid_minor: count.paid_minor + answer.amountMinor }),
  );
};

/**
 * Remembers a recurring sale as one of its customer. One too many keeps what it earns, and says so.
 */
const listing = (sale: Conversion, contract: Contract, answered: ContractAnswer): ContractAnswer => {
  if (contract.type !== "recurring") return answered;
  const { answer } = answered;
  const earns = answer.kind === "worth" && answer.amountMinor !== 0n;
  const { memory, kept } = listed(sale, contract, earns, answered.memory);
  if (kept !== "too_many" || answer.kind !== "worth") return { ...answered, memory, isListed: kept === "yes" };
  const formula = `${answer.formula}; kept even if an earlier first sale of the customer comes`;
  const inputs = {
    ...answer.inputs,
    customer_sales_most: SALES_TOGETHER,
    customer_sales_of_month_most: SALES_OF_MONTH,
  };
  return { ...answered, answer: { ...answer, formula, inputs } };
};

const worthOf = (
  recorded: Recorded<Conversion>,
  contract: Contract,
  memory: CommissionMemory,
): Pick<ContractAnswer, "entries" | "memory"> & { readonly worth: SaleWorth | NoWorth } => {
  const sale = recorded.data;
  if (contract.type === "percent") return { worth: percent(sale, contract), entries: [], memory };
  if (contract.type === "flat") return { worth: flat(sale, contract), entries: [], memory };
  if (contract.type === "hybrid") return { worth: hybrid(sale, contract), entries: [], memory };
  const known = buyerOf(sale, contract, memory);
  const { answer: worth, since } = recurring(sale, contract, known?.since);
  // The months start with the first sale that earns, so a free trial does not use them up. Each
  // sale of an unknown customer is its own first sale.
  const unmoved = { worth, entries: [], memory };
  if (worth.kind === "nothing" || sale.customer === "") return unmoved;
  const key = customerKey(contract.segment, contract.event_type, sale.customer);
  const own = customerIn(memory, key);
  if (since === own?.since) return unmoved;
  const met = { ...memory, [key]: { ...(known ?? newCustomer(contract, since)), since } };
  return { worth, ...(own === undefined ? { entries: [], memory: met } : moveFirstSale(recorded, key, met)) };
};

/**
 * The customer's first sale. Earlier versions counted months by device and by the sale's own type;
 * the earliest of those counts continues here.
 */
const buyerOf = (sale: Conversion, contract: Contract, memory: CommissionMemory): Customer | undefined => {
  const { customer, device, event_type } = sale;
  const { segment, event_type: countsAs } = contract;
  const own = customerIn(memory, customerKey(segment, countsAs, customer));
  if (own !== undefined) return own;
  const names = device === null ? [customer] : [customer, device];
  const before = names
    .flatMap((name) => [customerKey(segment, countsAs, name), customerKey(segment, event_type, name)])
    .flatMap((key) => customerIn(memory, key) ?? [])
    .filter(({ is_of_device }) => is_of_device);
  if (before.length === 0) return undefined;
  return newCustomer(contract, Math.min(...before.map(({ since }) => since)));
};

export const decide = (
  sale: Recorded<Conversion>,
  contract: Contract | undefined,
  memory: CommissionMemory,
): ContractAnswer => {
  const refused = (reason: NothingReason): ContractAnswer => ({
    answer: nothing(reason),
    ...uncounted,
    memory,
  });
  if (contract === undefined) return refused("no_contract");
  if (hasAmounts(contract) && contract.currency === null) return refused("incomplete_contract");
  if (hasAmounts(contract) && contract.currency !== sale.data.currency) return refused("currency_mismatch");
  if (contract.type !== "tiered") return decideOne(sale, contract, memory);
  return { ...uncounted, ...earnByVolume(sale.data, contract, memory) };
};

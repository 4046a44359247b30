// Applies a contract to a sale: its earnings, changes elsewhere in the month, and the new memory.

import type { Contract } from "../../domain/reference/reference.ts";
import type { Conversion } from "../../schemas/generated.ts";
import { recurring } from "./contract-types/recurring.ts";
import { type CommissionMemory, countIn, customerIn, customerKey, periodKey, withCount } from "./memory.ts";
import type { Customer, Volume } from "./memory-format.ts";
import type { Adjustment } from "./month.ts";
import { joined, orderFor, withLine } from "./order-share.ts";
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
  readonly memory: CommissionMemory;
}

const uncounted = { adjustments: [], units: null, table: null };

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
const decideOne = (sale: Conversion, contract: Contract, memory: CommissionMemory): ContractAnswer => {
  const { worth, memory: known } = worthOf(sale, contract, memory);
  const result = (answer: SaleWorth | NoWorth, after: CommissionMemory): ContractAnswer => ({
    answer,
    ...uncounted,
    memory: after,
  });
  if (worth.kind === "nothing") return result(worth, known);
  const order = orderFor(sale, contract, known);
  const share = order === null ? null : joined(worth, sale, contract, order);
  const met = order === null || share === null ? known : withLine(order, share.line, known);
  if (share?.isPaidBefore === true) return result(nothing("paid_with_order", share.worth.inputs), met);
  const within = share?.worth ?? bounded(worth, sale.line_value_minor, contract);
  const { cap, currency } = contract;
  if (cap === null || currency === null) return result(within, met);
  const key = periodKey(cap.period, sale.occurred_at, contract.segment, contract.event_type);
  const count = countIn(met, key);
  const answer = capped(within, cap, currency, count.paid_minor);
  if (answer.kind === "nothing" || answer.amountMinor === 0n) return result(answer, met);
  return result(answer, withCount(met, key, { ...count, paid_minor: count.paid_minor + answer.amountMinor }));
};

const worthOf = (
  sale: Conversion,
  contract: Contract,
  memory: CommissionMemory,
): { readonly worth: SaleWorth | NoWorth; readonly memory: CommissionMemory } => {
  if (contract.type === "percent") return { worth: percent(sale, contract), memory };
  if (contract.type === "flat") return { worth: flat(sale, contract), memory };
  if (contract.type === "hybrid") return { worth: hybrid(sale, contract), memory };
  const known = buyerOf(sale, contract, memory);
  const { answer: worth, since } = recurring(sale, contract, known?.since);
  // The months start with the first sale that earns, so a free trial does not use them up. Each
  // sale of an unknown customer is its own first sale.
  if (worth.kind === "nothing" || sale.customer === "") return { worth, memory };
  const key = customerKey(contract.segment, contract.event_type, sale.customer);
  if (since === customerIn(memory, key)?.since) return { worth, memory };
  const kept: Customer = { is: "customer", since, ...(known?.is_of_device ? { is_of_device: true } : {}) };
  return { worth, memory: { ...memory, [key]: kept } };
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
  return { is: "customer", since: Math.min(...before.map(({ since }) => since)) };
};

export const decide = (sale: Conversion, contract: Contract | undefined, memory: CommissionMemory): ContractAnswer => {
  const refused = (reason: NothingReason): ContractAnswer => ({
    answer: nothing(reason),
    ...uncounted,
    memory,
  });
  if (contract === undefined) return refused("no_contract");
  if (hasAmounts(contract) && contract.currency === null) return refused("incomplete_contract");
  if (hasAmounts(contract) && contract.currency !== sale.currency) return refused("currency_mismatch");
  return contract.type === "tiered" ? earnByVolume(sale, contract, memory) : decideOne(sale, contract, memory);
};

// A sale that comes late and is the first of its customer: the months begin with it, so they end
// earlier for all others. What lies behind their end then loses what it earned, each by an entry of
// its own.

import { dayOf } from "../../../domain/calendar.ts";
import { derivedId, prefixed } from "../../../domain/ids.ts";
import type { Conversion, LedgerEntry } from "../../../schemas/generated.ts";
import type { Recorded, UnixMs } from "../../../stream/flow.ts";
import { endOfMonths } from "../contract-types/recurring.ts";
import { entryFor } from "../entry.ts";
import {
  type CommissionMemory,
  conversionIn,
  conversionKey,
  countIn,
  losesBy,
  orderIn,
  orderKey,
  periodKey,
  withCount,
} from "../memory.ts";
import type { EarnedSale } from "../memory-format.ts";
import type { SoldLine } from "../orders/order-format.ts";
import { moveAmounts } from "../orders/order-move.ts";
import { withoutLines } from "../orders/order-parts.ts";
import type { CustomerSale } from "./format.ts";
import { withoutSales } from "./sales.ts";

/** The reason of an entry for a sale that lies behind the months now. */
const FIRST_SALE_MOVED = "first_sale_moved";

interface Step {
  readonly entries: readonly LedgerEntry[];
  readonly memory: CommissionMemory;
}
/**
 * Takes back what sales behind the end earned. `key` is that of the customer, whose months begin
 * with this sale.
 */
export const moveFirstSale = (first: Recorded<Conversion>, key: string, memory: CommissionMemory): Step => {
  const since = first.data.occurred_at;
  const { memory: kept, left: lost } = withoutSales(key, first.data, memory, (one) => losesBy(one, since));
  const entries: LedgerEntry[] = [];
  let met = kept;
  for (const one of lost) {
    const lossOf = lose(first, one, met);
    if (lossOf === undefined) continue;
    met = lossOf.memory;
    if (lossOf.entry === null) continue;
    const entry_id = prefixed("led", derivedId("commission", first.id, FIRST_SALE_MOVED, entries.length));
    entries.push({ ...lossOf.entry, entry_id });
  }
  const moved = leaveOrders(first, lost, met);
  return { entries: [...entries, ...moved.entries], memory: moved.memory };
};

const lose = (first: Recorded<Conversion>, one: CustomerSale, memory: CommissionMemory) => {
  const key = conversionKey(one.conversion_id);
  const sale = conversionIn(memory, key);
  if (sale === undefined || sale.line === null) return undefined;
  const leftMinor = sale.earned_minor - sale.reversed_minor;
  const after = { ...sale, entry_id: null, reason: "months_over", earned_minor: 0n, reversed_minor: 0n };
  const met = withRoom(sale, sale.line, leftMinor, { ...memory, [key]: after });
  return { entry: leftMinor === 0n ? null : entryOf(first, one, sale, sale.line), memory: met };
};

/** The cap of the sale's period gets its room back, as by a refund. */
const withRoom = (sale: EarnedSale, line: SoldLine, leftMinor: bigint, memory: CommissionMemory): CommissionMemory => {
  const { cap_period, contract_segment, counts_as } = sale;
  if (cap_period === null || leftMinor === 0n) return memory;
  const key = periodKey(cap_period, line.at, contract_segment, counts_as ?? line.event_type);
  const count = countIn(memory, key);
  return withCount(memory, key, { ...count, paid_minor: count.paid_minor - leftMinor });
};

/** Lines that lose leave their orders, whose amounts go to lines that stay within their months. */
const leaveOrders = (first: Recorded<Conversion>, lost: readonly CustomerSale[], memory: CommissionMemory): Step => {
  const gone = new Set(lost.map(({ conversion_id }) => conversion_id));
  const entries: LedgerEntry[] = [];
  let met = memory;
  for (const key of new Set(lost.flatMap((one) => keyOfOrder(one, memory)))) {
    const before = orderIn(memory, key);
    if (before === undefined) continue;
    const going = before.lines.filter(({ conversion_id }) => gone.has(conversion_id));
    const after = withoutLines(before, going);
    met = { ...met, [key]: after };
    const moved = moveAmounts(first, { key, before, after, gone: going }, met, entries.length);
    met = moved.memory;
    entries.push(...moved.entries);
  }
  return { entries, memory: met };
};
const keyOfOrder = ({ order_id, conversion_id }: CustomerSale, memory: CommissionMemory): readonly string[] => {
  const sale = conversionIn(memory, conversionKey(conversion_id));
  if (order_id === null || sale === undefined || sale.line === null) return [];
  return [orderKey(order_id, sale.contract_segment, sale.counts_as ?? sale.line.event_type)];
};

const entryOf = (
  first: Recorded<Conversion>,
  { conversion_id, months }: CustomerSale,
  sale: EarnedSale,
  line: SoldLine,
): LedgerEntry => {
  const { version, at: occurred_at, event_type, segment, campaign_id, currency } = line;
  const of = { conversion_id, version, occurred_at, event_type, segment, campaign_id, currency };
  const since: UnixMs = first.data.occurred_at;
  const amountMinor = sale.reversed_minor - sale.earned_minor;
  return entryFor(
    { ...first, data: { ...first.data, ...of } },
    {
      kind: "adjustment",
      amount_minor: amountMinor,
      reason: FIRST_SALE_MOVED,
      held: sale.held,
      payable_from: sale.payable_from,
      contract_id: sale.contract_id,
      contract_version: sale.contract_version,
      commission_type: sale.commission_type,
      formula:
        "amount = reversed before - earned: an earlier first sale of the customer came late, and this sale lies " +
        `behind its ${months} ${months === 1 ? "month" : "months"}`,
      inputs: JSON.stringify({
        first_sale: first.data.conversion_id,
        first_sale_event: first.data.event_id,
        customer_since: dayOf(since),
        months,
        paid_until: endOfMonths(since, months),
        earned_minor: sale.earned_minor.toString(),
        reversed_before_minor: sale.reversed_minor.toString(),
        currency,
        amount_minor: amountMinor.toString(),
      }),
      reverses_entry_id: sale.entry_id,
    },
  );
};

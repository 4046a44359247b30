// A line that is gone leaves its order: the next line of the same partner carries the amounts that
// pay once an order. Each line that earns more or less by it has an entry of its own.

import { derivedId, prefixed } from "../../domain/ids.ts";
import { divideHalfEven } from "../../domain/money.ts";
import type { Conversion, LedgerEntry } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { entryFor } from "./entry.ts";
import {
  type CommissionMemory,
  conversionIn,
  conversionKey,
  countIn,
  isGone,
  orderIn,
  orderKey,
  periodKey,
  withCount,
} from "./memory.ts";
import type { EarnedSale } from "./memory-format.ts";
import type { OrderLine, OrderLines } from "./order-format.ts";
import { amountOf, carrierOf, type OrderPart, orderWords, partInputs, partsOf } from "./order-share.ts";
import { capWords, larger, smaller } from "./worth.ts";

/** The reason of an entry for a line that stays. */
const LINE_LEFT = "order_line_left";

export interface LeftOrder {
  readonly key: string;
  readonly before: OrderLines;
  readonly after: OrderLines;
  readonly line: OrderLine;
}
/**
 * The order without a line that is gone, or with what is left of it. Undefined if no order counts
 * the line.
 */
export const leftOrder = (change: Conversion, sale: EarnedSale, memory: CommissionMemory): LeftOrder | undefined => {
  const { order_id, conversion_id, event_type, version, refunded_minor } = change;
  if (order_id === null) return undefined;
  const key = orderKey(order_id, sale.contract_segment, sale.counts_as ?? event_type);
  const before = orderIn(memory, key);
  const line = before?.lines.find((one) => one.conversion_id === conversion_id);
  if (before === undefined || line === undefined) return undefined;
  const left = isGone(change) ? [] : [{ ...line, version, refunded_minor }];
  return { key, before, line, after: { ...before, lines: before.lines.flatMap((one) => (one === line ? left : one)) } };
};

/** The line that counts as the order's sale in a month of tiers, once the one that did is gone. */
export const heirOf = ({ before, after, line }: LeftOrder): OrderLine | undefined => {
  const counting = ({ lines }: OrderLines): OrderLine | undefined => lines.find(({ pays }) => pays === null);
  return counting(before) === line && !after.lines.some((one) => one.conversion_id === line.conversion_id)
    ? counting(after)
    : undefined;
};

/** The part of an amount that the refunds of its line took. */
const takenOf = (amountMinor: bigint, { refunded_minor, value_minor }: OrderLine): bigint =>
  refunded_minor === 0n ? 0n : divideHalfEven(amountMinor * refunded_minor, value_minor);

interface Step {
  readonly earnedMinor: bigint;
  readonly reversedMinor: bigint;
  /** What the line gains or loses, less what its refunds took. */
  readonly amountMinor: bigint;
}
/** Room in a cap bounds what a line gains. What a cap withheld before stays withheld. */
const stepOf = (sale: EarnedSale, part: OrderPart, wasMinor: bigint, roomMinor: bigint | null): Step => {
  const moreMinor = amountOf(part) - wasMinor;
  const gainMinor = roomMinor === null ? moreMinor : smaller(moreMinor, roomMinor);
  const earnedMinor = moreMinor > 0n ? sale.earned_minor + gainMinor : smaller(sale.earned_minor, amountOf(part));
  const reversedMinor = takenOf(earnedMinor, part.line);
  const amountMinor = earnedMinor - reversedMinor - (sale.earned_minor - sale.reversed_minor);
  return { earnedMinor, reversedMinor, amountMinor };
};

const capKey = ({ pays, at }: OrderLine, { contract_segment, counts_as }: OrderLines): string | null =>
  pays?.cap == null ? null : periodKey(pays.cap.period, at, contract_segment, counts_as);

interface OrderStep {
  readonly entries: readonly LedgerEntry[];
  readonly memory: CommissionMemory;
}
/** Settles the lines that stay with what they earn now, in the order of their credit. */
export const moveAmounts = (change: Recorded<Conversion>, left: LeftOrder, memory: CommissionMemory): OrderStep => {
  const { before, after, line } = left;
  if (line.pays === null || before.lines.length === after.lines.length) return { entries: [], memory };
  const was = new Map(partsOf(before.lines, line.currency).map((part) => [part.line, amountOf(part)]));
  const entries: LedgerEntry[] = [];
  let met = memory;
  for (const part of partsOf(after.lines, line.currency)) {
    const moved = was.get(part.line) === amountOf(part) ? null : moveOne(change, left, part, was.get(part.line)!, met);
    if (moved === null) continue;
    met = moved.memory;
    entries.push({
      ...moved.entry,
      entry_id: prefixed("led", derivedId("commission", change.id, "moved", entries.length)),
    });
    const kept = conversionIn(met, conversionKey(part.line.conversion_id))!;
    if (kept.entry_id === null)
      met = { ...met, [conversionKey(part.line.conversion_id)]: { ...kept, entry_id: entries.at(-1)!.entry_id } };
  }
  return { entries, memory: met };
};

const moveOne = (
  change: Recorded<Conversion>,
  { after }: LeftOrder,
  part: OrderPart,
  wasMinor: bigint,
  memory: CommissionMemory,
): { readonly entry: LedgerEntry; readonly memory: CommissionMemory } | null => {
  const saleKey = conversionKey(part.line.conversion_id);
  const sale = conversionIn(memory, saleKey)!;
  const key = capKey(part.line, after);
  const cap = part.line.pays!.cap;
  const paidMinor = key === null ? 0n : countIn(memory, key).paid_minor;
  const step = stepOf(sale, part, wasMinor, cap === null ? null : larger(cap.amount_minor - paidMinor, 0n));
  if (step.earnedMinor === sale.earned_minor) return null;
  const kept = { ...sale, earned_minor: step.earnedMinor, reversed_minor: step.reversedMinor, reason: null };
  const met = { ...memory, [saleKey]: kept };
  const words = cap === null ? null : capWords(cap, part.line.currency, paidMinor);
  return {
    entry: entryOf(change, after, part, sale, step, wasMinor, words),
    memory:
      key === null ? met : withCount(met, key, { ...countIn(met, key), paid_minor: paidMinor + step.amountMinor }),
  };
};

const entryOf = (
  change: Recorded<Conversion>,
  { lines }: OrderLines,
  part: OrderPart,
  sale: EarnedSale,
  { earnedMinor, reversedMinor, amountMinor }: Step,
  wasMinor: bigint,
  cap: ReturnType<typeof capWords> | null,
): LedgerEntry => {
  const { conversion_id, version, at: occurred_at, event_type, segment, campaign_id, currency } = part.line;
  const first = carrierOf(lines, currency)!.pays!;
  const of = { conversion_id, version, occurred_at, event_type, segment, campaign_id, currency };
  return entryFor(
    { ...change, data: { ...change.data, ...of } },
    {
      kind: "adjustment",
      amount_minor: amountMinor,
      reason: LINE_LEFT,
      held: sale.held && amountMinor !== 0n,
      payable_from: sale.payable_from,
      contract_id: sale.contract_id,
      contract_version: sale.contract_version,
      commission_type: sale.commission_type,
      formula:
        `amount = what the order earns with this line (${orderWords(first, currency)}) less what it earned ` +
        "by the lines before it, now that another line has left the order" +
        `${cap === null ? "" : `${cap.formula} of it for more`}; ` +
        "less what its refunds took, less what it earned so far",
      inputs: JSON.stringify({
        ...partInputs(part, first),
        ...cap?.inputs,
        line_due_before_minor: wasMinor.toString(),
        earned_before_minor: sale.earned_minor.toString(),
        reversed_before_minor: sale.reversed_minor.toString(),
        refunded_minor: part.line.refunded_minor.toString(),
        earned_minor: earnedMinor.toString(),
        reversed_minor: reversedMinor.toString(),
        amount_minor: amountMinor.toString(),
      }),
      reverses_entry_id: null,
    },
  );
};

// A line that is gone leaves its order: the next line of the same partner carries the amounts that
// pay once an order. Each line that earns more or less by it has an entry of its own.

import { derivedId, prefixed } from "../../../domain/ids.ts";
import { divideHalfEven } from "../../../domain/money.ts";
import type { Conversion, LedgerEntry } from "../../../schemas/generated.ts";
import type { Recorded } from "../../../stream/flow.ts";
import { entryFor } from "../entry.ts";
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
} from "../memory.ts";
import type { EarnedSale } from "../memory-format.ts";
import { capWords, larger, smaller } from "../worth.ts";
import type { OrderLine, OrderLines } from "./order-format.ts";
import {
  amountOf,
  carrierOf,
  type MovedPart,
  movedBy,
  type PaidLine,
  partBehind,
  withoutLines,
} from "./order-parts.ts";
import { type OfOrder, orderWords, partInputs } from "./order-share.ts";

/** The reason of an entry that a line has because one left the order: itself, or another one. */
const LINE_LEFT = "order_line_left";

export interface LeftOrder {
  readonly key: string;
  readonly before: OrderLines;
  readonly after: OrderLines;
  /** The lines that left. */
  readonly gone: readonly OrderLine[];
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
  if (isGone(change)) return { key, before, gone: [line], after: withoutLines(before, [line]) };
  const lines = before.lines.with(before.lines.indexOf(line), { ...line, version, refunded_minor });
  return { key, before, gone: [], after: { ...before, lines } };
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
const stepOf = (sale: EarnedSale, { part, wasMinor }: MovedPart, roomMinor: bigint | null): Step => {
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
/**
 * Settles the lines that stay with what they earn now, in the order of their credit. Their entries
 * are counted from `from` on.
 */
export const moveAmounts = (
  change: Recorded<Conversion>,
  left: LeftOrder,
  memory: CommissionMemory,
  from = 0,
): OrderStep => {
  const { before, after, gone } = left;
  const entries: LedgerEntry[] = [];
  let met = memory;
  const move = { order: after, because: "another line has left the order" };
  for (const { part, wasMinor } of movedBy(before.lines, gone)) {
    const moved = moveOne(change, move, { part, wasMinor }, met);
    if (moved === null) continue;
    met = moved.memory;
    entries.push({
      ...moved.entry,
      entry_id: prefixed("led", derivedId("commission", change.id, "moved", from + entries.length)),
    });
    const kept = conversionIn(met, conversionKey(part.line.conversion_id))!;
    if (kept.entry_id === null)
      met = { ...met, [conversionKey(part.line.conversion_id)]: { ...kept, entry_id: entries.at(-1)!.entry_id } };
  }
  return { entries, memory: met };
};

/**
 * Takes the amounts from a line of 0 that carried them, before the first line of value carries
 * them: the room that it used in a cap is free then. A sale causes one such entry at most, and its
 * id is none of those that the lines of other orders have by the same sale.
 */
export const giveWay = (
  change: Recorded<Conversion>,
  worthless: PaidLine,
  line: PaidLine,
  { order }: OfOrder,
  memory: CommissionMemory,
): OrderStep => {
  const was = partBehind([], worthless);
  const part = partBehind([line], worthless);
  const lines = [line, worthless];
  const move = { order: { ...order, lines }, because: "a line of value carries what an order earns once" };
  const moved = moveOne(change, move, { part, wasMinor: amountOf(was) }, memory);
  if (moved === null) return { entries: [], memory };
  const entry_id = prefixed("led", derivedId("commission", change.id, "gave_way", 0));
  return { entries: [{ ...moved.entry, entry_id }], memory: moved.memory };
};

interface Move {
  readonly order: OrderLines;
  /** Why a line earns more or less now, for its receipt. */
  readonly because: string;
}
const moveOne = (
  change: Recorded<Conversion>,
  move: Move,
  { part, wasMinor }: MovedPart,
  memory: CommissionMemory,
): { readonly entry: LedgerEntry; readonly memory: CommissionMemory } | null => {
  const saleKey = conversionKey(part.line.conversion_id);
  const sale = conversionIn(memory, saleKey)!;
  const key = capKey(part.line, move.order);
  const cap = part.line.pays!.cap;
  const paidMinor = key === null ? 0n : countIn(memory, key).paid_minor;
  const step = stepOf(sale, { part, wasMinor }, cap === null ? null : larger(cap.amount_minor - paidMinor, 0n));
  if (step.earnedMinor === sale.earned_minor) return null;
  const kept = { ...sale, earned_minor: step.earnedMinor, reversed_minor: step.reversedMinor, reason: null };
  const met = { ...memory, [saleKey]: kept };
  const words = cap === null ? null : capWords(cap, part.line.currency, paidMinor);
  return {
    entry: entryOf(change, move, { part, wasMinor }, sale, step, words),
    memory:
      key === null ? met : withCount(met, key, { ...countIn(met, key), paid_minor: paidMinor + step.amountMinor }),
  };
};

const entryOf = (
  change: Recorded<Conversion>,
  { order: { lines }, because }: Move,
  { part, wasMinor }: MovedPart,
  sale: EarnedSale,
  { earnedMinor, reversedMinor, amountMinor }: Step,
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
        `by the lines before it, now that ${because}` +
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

// Applies sales, refunds and releases to a month's volume, each under the terms of its sale.

import { divideHalfEven } from "../../domain/money.ts";
import type { Contract } from "../../domain/reference/reference.ts";
import type { Conversion } from "../../schemas/generated.ts";
import { addedBy, isUnpaid, saleFormula, scaleOf, volumeInputs } from "./contract-types/tiered.ts";
import {
  type CommissionMemory,
  conversionIn,
  conversionKey,
  countIn,
  monthName,
  periodKey,
  withCount,
} from "./memory.ts";
import type { EarnedSale, Volume } from "./memory-format.ts";
import { type Adjustment, adjusted, spareIn, withPart } from "./month.ts";
import type { OrderLine } from "./orders/order-format.ts";
import { lineFor, orderFor, placeFor, withLine } from "./orders/order-share.ts";
import type { SaleCounts } from "./shares.ts";
import { minus, NO_VOLUME, ownKind, placeIn, plus, tableOf, volumeOf } from "./tier-volume.ts";
import { capWords, type NoWorth, nothing, type SaleWorth, smaller, WHOLE_PPM } from "./worth.ts";

export interface VolumeStep {
  readonly memory: CommissionMemory;
  readonly adjustments: readonly Adjustment[];
}

const keysFor = ({ occurred_at }: Conversion, segment: string | null, countsAs: string) => ({
  month: periodKey("month", occurred_at, segment, countsAs),
  lifetime: periodKey("lifetime", occurred_at, segment, countsAs),
});
type Keys = ReturnType<typeof keysFor>;
const countedIn = (memory: CommissionMemory, keys: Keys): SaleCounts => ({
  month: countIn(memory, keys.month),
  lifetime: countIn(memory, keys.lifetime),
});
const kept = (memory: CommissionMemory, keys: Keys, before: SaleCounts, after: SaleCounts): CommissionMemory => {
  const counted = withCount(memory, keys.month, after.month);
  return after.lifetime === before.lifetime ? counted : withCount(counted, keys.lifetime, after.lifetime);
};

type EarnedVolume = VolumeStep & {
  readonly answer: SaleWorth | NoWorth;
  readonly units: Volume | null;
  readonly table: string | null;
};
/**
 * The place of a sale in its order. `isCounted`: the order counts as a sale already, or the line as
 * none. `cleared`: the months without a line of 0 that counted until now.
 */
const inItsOrder = (sale: Conversion, contract: Contract, memory: CommissionMemory) => {
  const unmoved: VolumeStep = { memory, adjustments: [] };
  const order = orderFor(sale, contract, memory);
  if (order === null) return { isCounted: false, cleared: unmoved, withSale: (met: CommissionMemory) => met };
  const line = lineFor(sale, null);
  const { isLeftOut, gaveWay, of } = placeFor(order, line);
  return {
    isCounted: isLeftOut || of.order.lines.some(({ pays }) => pays === null),
    cleared: gaveWay === undefined ? unmoved : countAs(sale, gaveWay, memory, uncount),
    withSale: (met: CommissionMemory) => (isLeftOut ? met : withLine(of, line, met)),
  };
};
/** Counts a sale. `units` is the volume it added, or null if it added none. */
export const earnByVolume = (sale: Conversion, contract: Contract, memory: CommissionMemory): EarnedVolume => {
  const unchanged = { memory, adjustments: [], units: null, table: null };
  const scale = scaleOf(contract);
  if (scale === undefined) return { ...unchanged, answer: nothing("incomplete_contract") };
  const keys = keysFor(sale, contract.segment, contract.event_type);
  const { isCounted, cleared, withSale } = inItsOrder(sale, contract, memory);
  const before = countedIn(cleared.memory, keys);
  const { table, part } = tableOf(before.month, contract, scale);
  const opened = withPart(before, table, part, 0n);
  const units = isCounted ? { ...volumeOf(sale), sales_ppm: 0n } : volumeOf(sale);
  const isHeld = sale.review !== null;
  const grown = { ...part, units: plus(part.units, units) };
  const was = placeIn(opened.month, table);
  const counted = withPart(opened, table, grown, 0n);
  const place = placeIn(counted.month, table);
  const added = addedBy(was, place, scale);
  const { spareMinor, usedMinor } = spareIn(counted, table, before.month);
  const amountMinor = smaller(added, spareMinor);
  const ownHeld = isHeld ? { held_units: plus(part.held_units, units), held_minor: part.held_minor + amountMinor } : {};
  const step = adjusted(sale, opened, withPart(opened, table, { ...grown, ...ownHeld }, amountMinor));
  const cap = scale.cap === null ? null : capWords(scale.cap, scale.currency, usedMinor);
  const inputs = {
    line_value_minor: sale.line_value_minor.toString(),
    ...volumeInputs(monthName(sale.occurred_at), was, place, scale),
    ...cap?.inputs,
  };
  const isPaidBefore = isCounted && scale.per === "sale";
  const reason = isPaidBefore
    ? "paid_with_order"
    : added > 0n
      ? "cap_reached"
      : isUnpaid(was, place, scale)
        ? "below_first_tier"
        : "rounds_to_zero";
  const formula = saleFormula(place, scale) + (cap?.formula ?? "");
  // A sale worth nothing still counts as a sale, because a later table of the month may count
  // sales.
  const isWorthNothing = scale.per === "value" && sale.line_value_minor === 0n;
  const none = isWorthNothing ? nothing("zero_value") : nothing(reason, inputs);
  return {
    answer: amountMinor === 0n ? none : { kind: "worth", amountMinor, formula, inputs },
    units,
    table,
    adjustments: [...cleared.adjustments, ...step.adjustments],
    memory: withSale(kept(cleared.memory, keys, before, step)),
  };
};

/** Finds the part that counted the sale. Undefined if the sale was not counted. */
const partOf = (change: Conversion, sale: EarnedSale, memory: CommissionMemory) => {
  if (sale.units === null || sale.contract_id === null) return undefined;
  const keys = keysFor(change, sale.contract_segment, sale.counts_as ?? change.event_type);
  const before = countedIn(memory, keys);
  const table = sale.table ?? String(sale.contract_id);
  const part = before.month.sold[table];
  if (part === undefined) return undefined;
  /** Old records hold only the kind of units that their table counts. */
  const counted = (units: Volume): Volume =>
    sale.table !== null
      ? units
      : { ...NO_VOLUME, [part.scale.per === "value" ? "value_minor" : "sales_ppm"]: ownKind(units, part.scale) };
  return { keys, before, table, part, counted, isTracked: sale.table !== null && sale.held };
};

/** The part of a sale's volume that is gone once `refunded_minor` of its line is refunded. */
const backOf = (units: bigint, { refunded_minor, line_value_minor }: Conversion): bigint =>
  line_value_minor === 0n ? units : divideHalfEven(units * refunded_minor, line_value_minor);

interface OrderCounts {
  readonly counts: SaleCounts;
  readonly memory: CommissionMemory;
}
/** Counts a line of an order as the order's sale, as far as it is not refunded. */
const inherit = (
  line: OrderLine,
  heir: EarnedSale,
  table: string,
  counts: SaleCounts,
  memory: CommissionMemory,
): OrderCounts => {
  const back = line.refunded_minor === 0n ? 0n : divideHalfEven(WHOLE_PPM * line.refunded_minor, line.value_minor);
  const part = counts.month.sold[table]!;
  const more: Volume = { value_minor: 0n, sales_ppm: WHOLE_PPM - back };
  const held_units = heir.held ? plus(part.held_units, more) : part.held_units;
  const now: EarnedSale = {
    ...heir,
    units: { ...heir.units!, sales_ppm: WHOLE_PPM },
    units_back: { ...heir.units_back, sales_ppm: back },
  };
  return {
    counts: withPart(counts, table, { ...part, units: plus(part.units, more), held_units }, 0n),
    memory: { ...memory, [conversionKey(line.conversion_id)]: now },
  };
};

/** Counts a line no longer as its order's sale. */
const uncount: typeof inherit = (line, was, table, counts, memory) => {
  const part = counts.month.sold[table]!;
  const less: Volume = { value_minor: 0n, sales_ppm: was.units!.sales_ppm - was.units_back.sales_ppm };
  const held_units = was.held ? minus(part.held_units, less) : part.held_units;
  const now: EarnedSale = {
    ...was,
    units: { ...was.units!, sales_ppm: 0n },
    units_back: { ...was.units_back, sales_ppm: 0n },
  };
  return {
    counts: withPart(counts, table, { ...part, units: minus(part.units, less), held_units }, 0n),
    memory: { ...memory, [conversionKey(line.conversion_id)]: now },
  };
};

/**
 * Settles the month of another line, which counts as its order's sale from now on, or no longer.
 */
const countAs = (
  change: Conversion,
  line: OrderLine,
  memory: CommissionMemory,
  counting: typeof inherit,
): VolumeStep => {
  const own = { ...change, occurred_at: line.at, event_type: line.event_type };
  const heir = conversionIn(memory, conversionKey(line.conversion_id))!;
  const found = partOf(own, heir, memory)!;
  const { keys, before, table } = found;
  const { counts, memory: met } = counting(line, heir, table, before, memory);
  const step = adjusted(own, before, counts);
  const of = { at: line.at, payable_from: heir.payable_from };
  return {
    adjustments: step.adjustments.map((one) => ({ ...one, of })),
    memory: kept(met, keys, before, step),
  };
};

/**
 * Removes a refund from the volume of its sale's month, even if the contract has changed.
 * `partMinor` is the amount that the refund itself reverses. `next` is the line that then counts as
 * the order's sale.
 */
export const returnVolume = (
  change: Conversion,
  sale: EarnedSale,
  partMinor: bigint,
  memory: CommissionMemory,
  next?: OrderLine,
): VolumeStep & { readonly unitsBack: Volume } => {
  const found = partOf(change, sale, memory);
  if (found === undefined) return { memory, adjustments: [], unitsBack: sale.units_back };
  const { keys, before, table, part, counted, isTracked } = found;
  const unitsBack = {
    value_minor: backOf(sale.units!.value_minor, change),
    sales_ppm: backOf(sale.units!.sales_ppm, change),
  };
  const gone = counted(minus(unitsBack, sale.units_back));
  const less = {
    ...part,
    units: minus(part.units, gone),
    held_units: isTracked ? minus(part.held_units, gone) : part.held_units,
    held_minor: isTracked ? part.held_minor - partMinor : part.held_minor,
  };
  let [counts, met] = [withPart(before, table, less, -partMinor), memory];
  const isSameMonth = next !== undefined && monthName(next.at) === monthName(change.occurred_at);
  if (isSameMonth) {
    const heir = conversionIn(memory, conversionKey(next.conversion_id))!;
    ({ counts, memory: met } = inherit(next, heir, heir.table!, counts, memory));
  }
  const step = adjusted(change, before, counts);
  met = kept(met, keys, before, step);
  if (next === undefined || isSameMonth) return { adjustments: step.adjustments, unitsBack, memory: met };
  // The order's sale goes to another month.
  const there = countAs(change, next, met, inherit);
  return { adjustments: [...step.adjustments, ...there.adjustments], unitsBack, memory: there.memory };
};

/** The sale leaves review, so the amount that the month held because of it becomes payable. */
export const releaseVolume = (change: Conversion, sale: EarnedSale, memory: CommissionMemory): VolumeStep => {
  const found = partOf(change, sale, memory);
  if (found === undefined || !sale.held) return { memory, adjustments: [] };
  const { keys, before, table, part, isTracked } = found;
  const left = sale.entry_id === null ? 0n : sale.earned_minor - sale.reversed_minor;
  const free = isTracked
    ? {
        ...part,
        held_units: minus(part.held_units, minus(sale.units!, sale.units_back)),
        held_minor: part.held_minor - left,
      }
    : { ...part, won_held: part.won_held - smaller(sale.won_held, part.won_held) };
  const step = adjusted(change, before, withPart(before, table, free, 0n));
  return { adjustments: step.adjustments, memory: kept(memory, keys, before, step) };
};

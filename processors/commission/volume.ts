// A tiered contract settles its month as a whole: after every sale and refund, what was paid is
// what the volume earns, each part of it by the terms that it was sold under, within the cap.

import { divideHalfEven } from "../../domain/money.ts";
import type { Contract } from "../../domain/reference/reference.ts";
import type { Conversion } from "../../schemas/generated.ts";
import {
  type CommissionMemory,
  type Count,
  countIn,
  type Earned,
  type Scale,
  type Sold,
  type Volume,
  withCount,
} from "./earned.ts";
import { capWords, roomOf } from "./limits.ts";
import { inOrder, minus, NO_VOLUME, ownKind, placeIn, plus, tableOf, volumeOf, withoutReviews } from "./sold.ts";
import { monthName, periodKey } from "./sub-keys.ts";
import {
  addedBy,
  earnsAt,
  isUnpaid,
  type Place,
  reachedBy,
  saleFormula,
  scaleOf,
  volumeInputs,
  volumeWords,
} from "./tiered.ts";
import { type Inputs, LEDGER_MAX, larger, type Nothing, nothing, smaller, type Worth } from "./worth.ts";

/** What a part of the month gains or loses beside the sale or refund that caused it. */
export interface Adjustment {
  readonly contract_id: number;
  readonly contract_version: number | null;
  readonly amountMinor: bigint;
  /** What goes to the held account, or leaves it. */
  readonly heldMinor: bigint;
  /** Sequence number within the contract's month. */
  readonly number: number;
  readonly reason: "tier_won" | "tier_lost" | "cap_room" | "rounding" | "under_review" | "released";
  readonly formula: string;
  readonly inputs: Inputs;
}
export interface VolumeStep {
  readonly memory: CommissionMemory;
  readonly adjustments: readonly Adjustment[];
}

/** The counts of the sale's month, and of all months, where caps for life count. */
interface Counted {
  readonly month: Count;
  readonly lifetime: Count;
}
const keysFor = ({ occurred_at }: Conversion, segment: string | null, countsAs: string) => ({
  month: periodKey("month", occurred_at, segment, countsAs),
  lifetime: periodKey("lifetime", occurred_at, segment, countsAs),
});
type Keys = ReturnType<typeof keysFor>;
const countedIn = (memory: CommissionMemory, keys: Keys): Counted => ({
  month: countIn(memory, keys.month),
  lifetime: countIn(memory, keys.lifetime),
});
const kept = (memory: CommissionMemory, keys: Keys, before: Counted, after: Counted): CommissionMemory => {
  const counted = withCount(memory, keys.month, after.month);
  return after.lifetime === before.lifetime ? counted : withCount(counted, keys.lifetime, after.lifetime);
};

/** The part as a change of it left it; `amountMinor` is what was paid for it beside. */
const withPart = (counted: Counted, table: string, part: Sold, amountMinor: bigint): Counted => {
  const { cap } = part.scale;
  const paid = { ...part, paid_minor: part.paid_minor + amountMinor };
  const { month, lifetime } = counted;
  const isOf = (period: "month" | "lifetime"): boolean => cap?.period === period && amountMinor !== 0n;
  return {
    month: {
      paid_minor: month.paid_minor + (isOf("month") ? amountMinor : 0n),
      sold: { ...month.sold, [table]: paid },
    },
    lifetime: isOf("lifetime") ? { ...lifetime, paid_minor: lifetime.paid_minor + amountMinor } : lifetime,
  };
};
const usedOf = (scale: Scale, { month, lifetime }: Counted): bigint =>
  scale.cap?.period === "lifetime" ? lifetime.paid_minor : month.paid_minor;
/** What may still be paid: by the cap, and by what a ledger entry can hold. */
const spareOf = ({ scale, paid_minor }: Sold, counted: Counted): bigint => {
  const most = smaller(LEDGER_MAX - paid_minor, LEDGER_MAX);
  return scale.cap === null ? most : smaller(roomOf(scale.cap, usedOf(scale, counted)), most);
};

/**
 * What brings the part to what it earns: up as far as the cap has room, down without a limit, and
 * never to less than nothing.
 */
const missingOf = (counted: Counted, table: string): bigint => {
  const part = counted.month.sold[table]!;
  const missing = earnsAt(placeIn(counted.month, table), part.scale) - part.paid_minor;
  return missing <= 0n ? missing : smaller(missing, larger(spareOf(part, counted), -part.paid_minor));
};

/**
 * What of the part is held: what it earns less what it would earn without the sales under review,
 * so that a review which ends badly never takes back what is payable.
 */
const heldOf = (month: Count, table: string): bigint => {
  const part = month.sold[table]!;
  const payable = smaller(earnsAt(placeIn(month, table, withoutReviews), part.scale), part.paid_minor);
  return smaller(part.paid_minor - payable + part.won_held, larger(part.paid_minor, 0n));
};

/** Those that lose go first: what they give back may be room for those that gain. */
const settled = (counted: Counted): Counted & { readonly amounts: Readonly<Record<string, bigint>> } => {
  const amounts: Record<string, bigint> = {};
  let after = counted;
  for (const isLoss of [true, false])
    for (const [table] of inOrder(counted.month)) {
      const amount = missingOf(after, table);
      if (amount === 0n || amount < 0n !== isLoss) continue;
      const part = after.month.sold[table]!;
      const lost = smaller(part.won_held, larger(-amount, 0n));
      amounts[table] = (amounts[table] ?? 0n) + amount;
      after = withPart(after, table, { ...part, won_held: part.won_held - lost }, amount);
    }
  return { ...after, amounts };
};

/** One adjustment for each part that gains, loses, or has something else held than before. */
const adjusted = (change: Conversion, before: Counted, own: Counted): Counted & Pick<VolumeStep, "adjustments"> => {
  const { amounts, ...done } = settled(own);
  const adjustments: Adjustment[] = [];
  let after: Counted = done;
  for (const [table] of inOrder(done.month)) {
    const part = after.month.sold[table]!;
    const amountMinor = amounts[table] ?? 0n;
    const heldMinor = heldOf(after.month, table) - part.held_minor;
    if (amountMinor === 0n && heldMinor === 0n) continue;
    const numbers = Object.values(after.month.sold).filter(({ contract_id }) => contract_id === part.contract_id);
    const number = 1 + numbers.reduce((sum, { adjustments: count }) => sum + count, 0);
    adjustments.push(adjustmentOf(change, { table, before, own, amountMinor, heldMinor, number }));
    const counts = { ...part, held_minor: part.held_minor + heldMinor, adjustments: part.adjustments + 1 };
    after = withPart(after, table, counts, 0n);
  }
  return { ...after, adjustments };
};

interface Moved {
  readonly table: string;
  readonly before: Counted;
  /** After the sale's or the refund's own entry. */
  readonly own: Counted;
  readonly amountMinor: bigint;
  readonly heldMinor: bigint;
  readonly number: number;
}
const adjustmentOf = (change: Conversion, moved: Moved): Adjustment => {
  const { table, before, own, amountMinor, heldMinor, number } = moved;
  const part = own.month.sold[table]!;
  const { scale, contract_id, contract_version, paid_minor } = part;
  const place = placeIn(own.month, table);
  const was = before.month.sold[table] === undefined ? place : placeIn(before.month, table);
  const cap = scale.cap === null ? null : capWords(scale.cap, scale.currency, usedOf(scale, own));
  const atTier = scale.mode === "marginal" ? ", each part at its tier" : " at the tier that it reached";
  const held = heldMinor === 0n ? "" : "; held is what it earns less what it would earn without the sales under review";
  return {
    contract_id,
    contract_version,
    amountMinor,
    heldMinor,
    number,
    reason: reasonOf(change, moved, was, place),
    formula:
      `amount = what ${volumeWords(scale, place)} earns now${atTier}, rounded half to even, less what ` +
      `was earned by it so far${cap?.formula ?? ""}${held}`,
    inputs: {
      ...volumeInputs(monthName(change.occurred_at), was, place, scale),
      volume_earns_minor: earnsAt(place, scale).toString(),
      earned_before_minor: paid_minor.toString(),
      ...cap?.inputs,
      ...(heldMinor === 0n
        ? {}
        : {
            held_before_minor: part.held_minor.toString(),
            held_after_minor: (part.held_minor + heldMinor).toString(),
          }),
      amount_minor: amountMinor.toString(),
    },
  };
};

const reasonOf = (
  { kind }: Conversion,
  { table, before, amountMinor }: Moved,
  was: Place,
  place: Place,
): Adjustment["reason"] => {
  if (amountMinor === 0n) return kind === "released" ? "released" : "under_review";
  const part = before.month.sold[table];
  if (part === undefined) return amountMinor > 0n ? "tier_won" : "tier_lost";
  const { scale, paid_minor } = part;
  const hasMoved = reachedBy(was.month, scale) !== reachedBy(place.month, scale);
  if (!hasMoved && (amountMinor === 1n || amountMinor === -1n)) return "rounding";
  if (amountMinor > 0n && scale.cap !== null && paid_minor < earnsAt(was, scale)) return "cap_room";
  return amountMinor > 0n ? "tier_won" : "tier_lost";
};

/** Counts a sale. `units` is what it added to the volume; null when it added nothing. */
export const earnByVolume = (
  sale: Conversion,
  contract: Contract,
  memory: CommissionMemory,
): VolumeStep & {
  readonly answer: Worth | Nothing;
  readonly units: Volume | null;
  readonly table: string | null;
} => {
  const unchanged = { memory, adjustments: [], units: null, table: null };
  const scale = scaleOf(contract);
  if (scale === undefined) return { ...unchanged, answer: nothing("incomplete_contract") };
  if (scale.per === "value" && sale.line_value_minor === 0n) return { ...unchanged, answer: nothing("zero_value") };
  const keys = keysFor(sale, contract.segment, contract.event_type);
  const before = countedIn(memory, keys);
  const { table, part } = tableOf(before.month, contract, scale);
  const opened = withPart(before, table, part, 0n);
  const units = volumeOf(sale);
  const isHeld = sale.review !== null;
  const grown = { ...part, units: plus(part.units, units) };
  const was = placeIn(opened.month, table);
  const place = placeIn(withPart(opened, table, grown, 0n).month, table);
  const added = addedBy(was, place, scale);
  const amountMinor = smaller(added, spareOf(part, before));
  const ownHeld = isHeld ? { held_units: plus(part.held_units, units), held_minor: part.held_minor + amountMinor } : {};
  const step = adjusted(sale, opened, withPart(opened, table, { ...grown, ...ownHeld }, amountMinor));
  const cap = scale.cap === null ? null : capWords(scale.cap, scale.currency, usedOf(scale, before));
  const inputs = {
    line_value_minor: sale.line_value_minor.toString(),
    ...volumeInputs(monthName(sale.occurred_at), was, place, scale),
    ...cap?.inputs,
  };
  const reason = added > 0n ? "cap_reached" : isUnpaid(was, place, scale) ? "below_first_tier" : "rounds_to_zero";
  const formula = saleFormula(place, scale) + (cap?.formula ?? "");
  return {
    answer: amountMinor === 0n ? nothing(reason, inputs) : { kind: "worth", amountMinor, formula, inputs },
    units,
    table,
    adjustments: step.adjustments,
    memory: kept(memory, keys, before, step),
  };
};

/** Where the sale was counted; undefined when it counted nothing. */
const partOf = (change: Conversion, sale: Earned, memory: CommissionMemory) => {
  if (sale.units === null || sale.contract_id === null) return undefined;
  const keys = keysFor(change, sale.contract_segment, sale.counts_as ?? change.event_type);
  const before = countedIn(memory, keys);
  const table = sale.table ?? String(sale.contract_id);
  const part = before.month.sold[table];
  if (part === undefined) return undefined;
  /** Sales once remembered the one kind that their table counts. */
  const counted = (units: Volume): Volume =>
    sale.table !== null
      ? units
      : { ...NO_VOLUME, [part.scale.per === "value" ? "value_minor" : "sales_ppm"]: ownKind(units, part.scale) };
  return { keys, before, table, part, counted, isTracked: sale.table !== null && sale.held };
};

/** What of a sale's volume is gone once `refunded` of the line is. */
const backOf = (units: bigint, { refunded_minor, line_value_minor }: Conversion): bigint =>
  line_value_minor === 0n ? units : divideHalfEven(units * refunded_minor, line_value_minor);

/**
 * Takes a refund out of the volume of its sale's month, whatever the contract says by now.
 * `partMinor` is what the refund itself takes back.
 */
export const returnVolume = (
  change: Conversion,
  sale: Earned,
  partMinor: bigint,
  memory: CommissionMemory,
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
  const step = adjusted(change, before, withPart(before, table, less, -partMinor));
  return { adjustments: step.adjustments, unitsBack, memory: kept(memory, keys, before, step) };
};

/** The sale is under review no more: what the month holds because of it becomes payable with it. */
export const releaseVolume = (change: Conversion, sale: Earned, memory: CommissionMemory): VolumeStep => {
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

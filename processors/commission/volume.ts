// A tiered contract settles its month as a whole: after every sale and refund, what was paid is
// what the volume earns, within the cap.

import { divideHalfEven } from "../../domain/money.ts";
import type { Contract } from "../../domain/reference/reference.ts";
import type { Conversion } from "../../schemas/generated.ts";
import { type CommissionMemory, type Count, countIn, type Earned, type Scale, withCount } from "./earned.ts";
import { capWords, roomOf } from "./limits.ts";
import { monthName, periodKey } from "./sub-keys.ts";
import { addedBy, isUnpaid, reachedBy, saleFormula, scaleOf, totalOf, volumeInputs, volumeWords } from "./tiered.ts";
import { type Inputs, LEDGER_MAX, larger, type Nothing, nothing, smaller, WHOLE_PPM, type Worth } from "./worth.ts";

/** What the month as a whole gains or loses beside the sale or refund that caused it. */
export interface Adjustment {
  readonly amountMinor: bigint;
  /** What of it is held: won by a sale under review, until as much is lost again. */
  readonly heldMinor: bigint;
  /** The how many-th of this contract's month. */
  readonly number: number;
  readonly reason: "tier_won" | "tier_lost" | "terms_changed" | "cap_room" | "rounding" | "released";
  readonly formula: string;
  readonly inputs: Inputs;
}
export interface VolumeStep {
  readonly memory: CommissionMemory;
  readonly adjustment: Adjustment | null;
}

/** The counts of the sale's month, and of all months when the cap is for life. */
const keysFor = ({ occurred_at }: Conversion, segment: string | null, countsAs: string) => ({
  month: periodKey("month", occurred_at, segment, countsAs),
  lifetime: periodKey("lifetime", occurred_at, segment, countsAs),
});
const usedOf = (scale: Scale, month: Count, lifetime: Count): bigint =>
  scale.cap?.period === "lifetime" ? lifetime.paid_minor : month.paid_minor;
/** What may still be paid: by the cap, and by what a ledger entry can hold. */
const spareOf = (scale: Scale, month: Count, lifetime: Count): bigint => {
  const most = smaller(LEDGER_MAX - month.paid_minor, LEDGER_MAX);
  return scale.cap === null ? most : smaller(roomOf(scale.cap, usedOf(scale, month, lifetime)), most);
};
const paidMore = (count: Count, amountMinor: bigint): Count => ({
  ...count,
  paid_minor: count.paid_minor + amountMinor,
});
const isSame = (a: Scale, b: Scale): boolean =>
  a.mode === b.mode &&
  a.per === b.per &&
  a.steps.length === b.steps.length &&
  a.steps.every(({ from, price }, n) => from === b.steps[n]!.from && price === b.steps[n]!.price);

/**
 * Losses are taken from what is held first and from the rest then, and gains refill a rest below
 * zero first: so both are zero when the sum is.
 */
const heldPartOf = (amountMinor: bigint, isHeld: boolean, { adjusted_minor, adjusted_held_minor }: Count): bigint => {
  if (amountMinor < 0n) return -smaller(adjusted_held_minor, -amountMinor);
  if (!isHeld) return 0n;
  const debt = larger(adjusted_held_minor - adjusted_minor, 0n);
  return amountMinor - smaller(amountMinor, debt);
};

interface Moved {
  readonly before: Count;
  /** After the sale's or the refund's own entry. */
  readonly month: Count;
  readonly lifetime: Count;
  readonly scale: Scale;
  readonly isHeld: boolean;
}
/**
 * Brings what was paid to what the volume earns: up as far as the cap has room, down without a
 * limit, and never to less than nothing.
 */
const adjusted = (change: Conversion, { before, month, lifetime, scale, isHeld }: Moved) => {
  const goal = totalOf(month.units, scale);
  const missing = goal - month.paid_minor;
  const amountMinor =
    missing <= 0n ? missing : smaller(missing, larger(spareOf(scale, month, lifetime), -month.paid_minor));
  if (amountMinor === 0n) return { month, lifetime, adjustment: null };
  const cap = scale.cap === null ? null : capWords(scale.cap, scale.currency, usedOf(scale, month, lifetime));
  const heldMinor = heldPartOf(amountMinor, isHeld, month);
  const adjustment: Adjustment = {
    amountMinor,
    heldMinor,
    number: month.adjustments + 1,
    reason: reasonOf(amountMinor, before, month, scale),
    formula: `amount = what ${volumeWords(scale)} earns now${scale.mode === "marginal" ? ", each part at its tier" : " at the tier that it reached"}, rounded half to even, less what was earned by it so far${cap?.formula ?? ""}`,
    inputs: {
      ...volumeInputs(monthName(change.occurred_at), before.units, month.units, scale),
      volume_earns_minor: goal.toString(),
      earned_before_minor: month.paid_minor.toString(),
      ...cap?.inputs,
      amount_minor: amountMinor.toString(),
    },
  };
  return {
    month: {
      ...paidMore(month, amountMinor),
      adjusted_minor: month.adjusted_minor + amountMinor,
      adjusted_held_minor: month.adjusted_held_minor + heldMinor,
      adjustments: month.adjustments + 1,
    },
    lifetime: paidMore(lifetime, amountMinor),
    adjustment,
  };
};

const reasonOf = (amountMinor: bigint, before: Count, month: Count, scale: Scale): Adjustment["reason"] => {
  if (before.scale !== null && !isSame(before.scale, scale)) return "terms_changed";
  const hasMoved = reachedBy(before.units, scale) !== reachedBy(month.units, scale);
  if (!hasMoved && (amountMinor === 1n || amountMinor === -1n)) return "rounding";
  if (amountMinor > 0n && before.paid_minor < totalOf(before.units, scale) && scale.cap !== null) return "cap_room";
  return amountMinor > 0n ? "tier_won" : "tier_lost";
};

const remembered = (
  memory: CommissionMemory,
  change: Conversion,
  contractId: number,
  segment: string | null,
  countsAs: string,
  month: Count,
  lifetime: Count,
) => {
  const keys = keysFor(change, segment, countsAs);
  const counted = withCount(memory, keys.month, contractId, month);
  return month.scale?.cap?.period === "lifetime" ? withCount(counted, keys.lifetime, contractId, lifetime) : counted;
};

/**
 * Counts a sale. `units` is what it added to the volume; null when it added nothing and nothing was
 * changed.
 */
export const earnByVolume = (
  sale: Conversion,
  contract: Contract,
  memory: CommissionMemory,
): VolumeStep & { readonly answer: Worth | Nothing; readonly units: bigint | null } => {
  const unchanged = { memory, adjustment: null, units: null };
  const scale = scaleOf(contract);
  if (scale === undefined) return { ...unchanged, answer: nothing("incomplete_contract") };
  if (scale.per === "value" && sale.line_value_minor === 0n) return { ...unchanged, answer: nothing("zero_value") };
  const units = scale.per === "value" ? sale.line_value_minor : WHOLE_PPM;
  const keys = keysFor(sale, contract.segment, contract.event_type);
  const before = countIn(memory, keys.month, contract.contract_id);
  const lifetime = countIn(memory, keys.lifetime, contract.contract_id);
  const after = before.units + units;
  const added = addedBy(before.units, after, scale);
  const amountMinor = smaller(added, spareOf(scale, before, lifetime));
  const cap = scale.cap === null ? null : capWords(scale.cap, scale.currency, usedOf(scale, before, lifetime));
  const inputs = {
    line_value_minor: sale.line_value_minor.toString(),
    ...volumeInputs(monthName(sale.occurred_at), before.units, after, scale),
    ...cap?.inputs,
  };
  const step = adjusted(sale, {
    before,
    month: { ...paidMore(before, amountMinor), units: after, scale },
    lifetime: paidMore(lifetime, amountMinor),
    scale,
    isHeld: sale.review !== null,
  });
  const reason =
    added > 0n ? "cap_reached" : isUnpaid(before.units, after, scale) ? "below_first_tier" : "rounds_to_zero";
  return {
    answer:
      amountMinor === 0n
        ? nothing(reason, inputs)
        : { kind: "worth", amountMinor, formula: saleFormula(after, scale) + (cap?.formula ?? ""), inputs },
    units,
    adjustment: step.adjustment,
    memory: remembered(
      memory,
      sale,
      contract.contract_id,
      contract.segment,
      contract.event_type,
      step.month,
      step.lifetime,
    ),
  };
};

/** What of a sale's volume is gone once `refunded` of the line is. */
const unitsBackOf = (units: bigint, { refunded_minor, line_value_minor }: Conversion): bigint =>
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
): VolumeStep & { readonly unitsBack: bigint } => {
  const unchanged = { memory, adjustment: null, unitsBack: sale.units_back };
  if (sale.units === null || sale.contract_id === null) return unchanged;
  const countsAs = sale.counts_as ?? change.event_type;
  const keys = keysFor(change, sale.contract_segment, countsAs);
  const before = countIn(memory, keys.month, sale.contract_id);
  const { scale } = before;
  if (scale === null) return unchanged;
  const unitsBack = unitsBackOf(sale.units, change);
  const step = adjusted(change, {
    before,
    month: { ...paidMore(before, -partMinor), units: before.units - (unitsBack - sale.units_back) },
    lifetime: paidMore(countIn(memory, keys.lifetime, sale.contract_id), -partMinor),
    scale,
    isHeld: sale.held,
  });
  return {
    adjustment: step.adjustment,
    unitsBack,
    memory: remembered(memory, change, sale.contract_id, sale.contract_segment, countsAs, step.month, step.lifetime),
  };
};

/** What the month won by a held sale becomes payable with it, as far as it was not lost again. */
export const releaseVolume = (change: Conversion, sale: Earned, memory: CommissionMemory): VolumeStep => {
  if (sale.won_held === 0n || sale.contract_id === null) return { memory, adjustment: null };
  const { month: key } = keysFor(change, sale.contract_segment, sale.counts_as ?? change.event_type);
  const count = countIn(memory, key, sale.contract_id);
  const releasedMinor = smaller(sale.won_held, count.adjusted_held_minor);
  if (releasedMinor === 0n) return { memory, adjustment: null };
  return {
    memory: withCount(memory, key, sale.contract_id, {
      ...count,
      adjusted_held_minor: count.adjusted_held_minor - releasedMinor,
      adjustments: count.adjustments + 1,
    }),
    adjustment: {
      amountMinor: 0n,
      heldMinor: -releasedMinor,
      number: count.adjustments + 1,
      reason: "released",
      formula:
        "released = what the month won by this sale and did not lose again; from held to payable, the partner gains nothing by it",
      inputs: {
        won_minor: sale.won_held.toString(),
        held_before_minor: count.adjusted_held_minor.toString(),
        released_minor: releasedMinor.toString(),
        amount_minor: "0",
      },
    },
  };
};

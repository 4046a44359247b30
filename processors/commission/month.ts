// Settles a month: after every change, what was paid for each part of its volume is what the part
// earns, within the cap, and what of it is held is what the sales under review add.

import type { Conversion } from "../../schemas/generated.ts";
import { earnsAt, type Place, reachedBy, volumeInputs, volumeWords } from "./contract-types/tiered.ts";
import type { Count, Scale, Sold } from "./earned.ts";
import { capWords, roomOf } from "./limits.ts";
import { inOrder, placeIn, withoutReviews } from "./sold.ts";
import { monthName } from "./sub-keys.ts";
import { type Inputs, LEDGER_MAX, larger, smaller } from "./worth.ts";

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
/** The counts of the sale's month, and of all months, where caps for life count. */
export interface Counted {
  readonly month: Count;
  readonly lifetime: Count;
}
/** The part as a change of it left it; `amountMinor` is what was paid for it beside. */
export const withPart = (counted: Counted, table: string, part: Sold, amountMinor: bigint): Counted => {
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
export const usedOf = (scale: Scale, { month, lifetime }: Counted): bigint =>
  scale.cap?.period === "lifetime" ? lifetime.paid_minor : month.paid_minor;
/** What may still be paid: by the cap, and by what a ledger entry can hold. */
export const spareOf = ({ scale, paid_minor }: Sold, counted: Counted): bigint => {
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

interface Amount {
  readonly amountMinor: bigint;
  /** What its cap had used before: the other parts move in the same step. */
  readonly usedMinor: bigint;
}
/**
 * In this order: what is lost may be room for what is won, and a part that stands below nothing
 * after a refund takes of that room first.
 */
const STEPS: readonly ((missing: bigint, paidMinor: bigint) => bigint)[] = [
  (missing) => smaller(missing, 0n),
  (missing, paidMinor) => smaller(larger(missing, 0n), larger(-paidMinor, 0n)),
  (missing) => larger(missing, 0n),
];
const settled = (counted: Counted): Counted & { readonly amounts: ReadonlyMap<string, Amount> } => {
  const amounts = new Map<string, Amount>();
  let after = counted;
  for (const stepOf of STEPS)
    for (const [table] of inOrder(counted.month)) {
      const part = after.month.sold[table]!;
      const step = stepOf(missingOf(after, table), part.paid_minor);
      if (step === 0n) continue;
      const before = amounts.get(table)?.amountMinor ?? 0n;
      amounts.set(table, { amountMinor: before + step, usedMinor: usedOf(part.scale, after) - before });
      const lost = smaller(part.won_held, larger(-step, 0n));
      after = withPart(after, table, { ...part, won_held: part.won_held - lost }, step);
    }
  return { ...after, amounts };
};

/** One adjustment for each part that gains, loses, or has something else held than before. */
export const adjusted = (
  change: Conversion,
  before: Counted,
  own: Counted,
): Counted & { readonly adjustments: readonly Adjustment[] } => {
  const { amounts, ...done } = settled(own);
  const adjustments: Adjustment[] = [];
  let after: Counted = done;
  for (const [table] of inOrder(done.month)) {
    const part = after.month.sold[table]!;
    const { amountMinor, usedMinor } = amounts.get(table) ?? { amountMinor: 0n, usedMinor: usedOf(part.scale, done) };
    const heldMinor = heldOf(after.month, table) - part.held_minor;
    if (amountMinor === 0n && heldMinor === 0n) continue;
    const numbers = Object.values(after.month.sold).filter(({ contract_id }) => contract_id === part.contract_id);
    const number = 1 + numbers.reduce((sum, { adjustments: count }) => sum + count, 0);
    adjustments.push(adjustmentOf(change, { table, before, own, amountMinor, usedMinor, heldMinor, number }));
    const counts = { ...part, held_minor: part.held_minor + heldMinor, adjustments: part.adjustments + 1 };
    after = withPart(after, table, counts, 0n);
  }
  return { ...after, adjustments };
};

interface Moved extends Amount {
  readonly table: string;
  readonly before: Counted;
  /** After the sale's or the refund's own entry. */
  readonly own: Counted;
  readonly heldMinor: bigint;
  readonly number: number;
}
const adjustmentOf = (change: Conversion, moved: Moved): Adjustment => {
  const { table, before, own, amountMinor, usedMinor, heldMinor, number } = moved;
  const part = own.month.sold[table]!;
  const { scale, contract_id, contract_version, paid_minor } = part;
  const place = placeIn(own.month, table);
  const was = before.month.sold[table] === undefined ? place : placeIn(before.month, table);
  const cap = scale.cap === null ? null : capWords(scale.cap, scale.currency, usedMinor);
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

// Settles a month. After every change, each part of the volume has been paid its earnings within
// the cap, and the held share is the amount that the sales under review add.

import type { Conversion } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { earnsAt, type Place, reachedBy, volumeInputs, volumeWords } from "./contract-types/tiered.ts";
import { monthName } from "./memory.ts";
import type { Count, TierSales } from "./memory-format.ts";
import { payableOf, type SaleCounts, type Share, sharesOf } from "./shares.ts";
import { placeIn } from "./tier-volume.ts";
import { capWords, type Inputs, LEDGER_MAX, larger, smaller } from "./worth.ts";

/**
 * The amount that a part of the month gains or loses in addition to the sale or refund that caused
 * the change.
 */
export interface Adjustment {
  readonly contract_id: number;
  readonly contract_version: number | null;
  readonly amountMinor: bigint;
  /** The amount that goes to the held account (negative: leaves it). */
  readonly heldMinor: bigint;
  /** A sequence number within the contract's month. */
  readonly number: number;
  readonly reason: "tier_won" | "tier_lost" | "cap_room" | "rounding" | "under_review" | "released";
  readonly formula: string;
  readonly inputs: Inputs;
  /** Another sale of the order, if it is about that one's month and not about the change's. */
  readonly of?: { readonly at: UnixMs; readonly payable_from: UnixMs | null };
}
/**
 * Replaces a part of the month. `amountMinor` is added to the amount paid for it and to the amount
 * that its cap has used.
 */
export const withPart = (counted: SaleCounts, table: string, part: TierSales, amountMinor: bigint): SaleCounts => {
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
/** The used amount of the part's cap, including the part's own payments. */
const usedBy = ({ scale, paid_minor }: TierSales, { roomMinor }: Share): bigint =>
  scale.cap === null || roomMinor === null ? 0n : scale.cap.amount_minor - roomMinor + paid_minor;

/** The most that a new sale may earn: the rest of the cap, and the limit of a ledger entry. */
export const spareIn = (grown: SaleCounts, table: string, before: Count) => {
  const share = sharesOf(grown, before).get(table)!;
  const part = grown.month.sold[table]!;
  const most = smaller(LEDGER_MAX - part.paid_minor, LEDGER_MAX);
  const spareMinor = share.roomMinor === null ? most : smaller(larger(share.roomMinor - part.paid_minor, 0n), most);
  return { spareMinor, usedMinor: usedBy(part, share) };
};

interface Amount {
  readonly amountMinor: bigint;
  readonly usedMinor: bigint;
}
const settled = (own: SaleCounts, before: Count): SaleCounts & { readonly amounts: ReadonlyMap<string, Amount> } => {
  const amounts = new Map<string, Amount>();
  let after = own;
  for (const [table, share] of sharesOf(own, before)) {
    const part = own.month.sold[table]!;
    const amountMinor = share.amountMinor - part.paid_minor;
    amounts.set(table, { amountMinor, usedMinor: usedBy(part, share) });
    if (amountMinor === 0n) continue;
    const lost = smaller(part.won_held, larger(-amountMinor, 0n));
    after = withPart(after, table, { ...part, won_held: part.won_held - lost }, amountMinor);
  }
  return { ...after, amounts };
};

/** Makes one adjustment for each part whose earnings or held share changed. */
export const adjusted = (
  change: Conversion,
  before: SaleCounts,
  own: SaleCounts,
): SaleCounts & { readonly adjustments: readonly Adjustment[] } => {
  const { amounts, ...done } = settled(own, before.month);
  const payable = payableOf(done, before.month);
  const adjustments: Adjustment[] = [];
  let after: SaleCounts = done;
  for (const [table, amount] of amounts) {
    const part = after.month.sold[table]!;
    const held = smaller(part.paid_minor - payable.get(table)! + part.won_held, larger(part.paid_minor, 0n));
    const heldMinor = held - part.held_minor;
    if (amount.amountMinor === 0n && heldMinor === 0n) continue;
    const numbers = Object.values(after.month.sold).filter(({ contract_id }) => contract_id === part.contract_id);
    const number = 1 + numbers.reduce((sum, { adjustments: count }) => sum + count, 0);
    adjustments.push(adjustmentOf(change, { table, before, own, ...amount, heldMinor, number }));
    const counts = { ...part, held_minor: held, adjustments: part.adjustments + 1 };
    after = withPart(after, table, counts, 0n);
  }
  return { ...after, adjustments };
};

interface MonthMove extends Amount {
  readonly table: string;
  readonly before: SaleCounts;
  /** The counts after the sale's or refund's own entry. */
  readonly own: SaleCounts;
  readonly heldMinor: bigint;
  readonly number: number;
}
const adjustmentOf = (change: Conversion, moved: MonthMove): Adjustment => {
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
  { table, before, amountMinor }: MonthMove,
  was: Place,
  place: Place,
): Adjustment["reason"] => {
  if (amountMinor === 0n) return kind === "released" ? "released" : "under_review";
  const part = before.month.sold[table];
  if (part === undefined) return amountMinor > 0n ? "tier_won" : "tier_lost";
  const { scale, paid_minor } = part;
  const hasMoved = reachedBy(was.month, scale) !== reachedBy(place.month, scale);
  if (!hasMoved && (amountMinor === 1n || amountMinor === -1n)) return "rounding";
  const isOfCap = amountMinor > 0n ? paid_minor < earnsAt(was, scale) : earnsAt(place, scale) >= earnsAt(was, scale);
  if (scale.cap !== null && isOfCap) return "cap_room";
  return amountMinor > 0n ? "tier_won" : "tier_lost";
};

// Computes the earnings of each tier table of a month within its cap, and the payable part of them.
// The result depends on the sold volume, not on the order of events.

import { earnsAt } from "./contract-types/tiered.ts";
import type { Count, TierSales } from "./memory-format.ts";
import { inOrder, placeIn, withoutReviews } from "./tier-volume.ts";
import { LEDGER_MAX, larger, smaller } from "./worth.ts";

/** The counts of the sale's month and of all months. Caps for life use the latter. */
export interface SaleCounts {
  readonly month: Count;
  readonly lifetime: Count;
}
/** Amounts in minor units. `roomMinor` is null if there is no cap. */
export interface Share {
  readonly amountMinor: bigint;
  /** The room of the cap for this part, including everything already paid for it. */
  readonly roomMinor: bigint | null;
}
type Period = keyof SaleCounts;

const sumOf = (amounts: Iterable<bigint>): bigint => [...amounts].reduce((sum, one) => sum + one, 0n);

/**
 * Earlier terms use a cap first. The amounts that other sales used of it (sales that earn one by
 * one, or other months of a lifetime cap) stay used, but do not reduce the amounts that these
 * tables had `before`.
 */
export const sharesOf = (
  counted: SaleCounts,
  before: Count,
  unitsOf?: (part: TierSales) => TierSales["units"],
): ReadonlyMap<string, Share> => {
  const parts = inOrder(counted.month);
  const taken = { month: 0n, lifetime: 0n };
  const had = { month: 0n, lifetime: 0n };
  const othersIn = (period: Period): bigint =>
    counted[period].paid_minor -
    sumOf(parts.map(([, { scale, paid_minor }]) => (scale.cap?.period === period ? paid_minor : 0n)));
  const shares = new Map<string, Share>();
  for (const [table, { scale, paid_minor }] of parts) {
    const most = smaller(LEDGER_MAX, paid_minor + LEDGER_MAX);
    const earns = smaller(earnsAt(placeIn(counted.month, table, unitsOf), scale), most);
    const { cap } = scale;
    if (cap === null) {
      shares.set(table, { amountMinor: earns, roomMinor: null });
      continue;
    }
    const period: Period = cap.period === "lifetime" ? "lifetime" : "month";
    const kept = smaller(earnsAt(placeIn(counted.month, table), scale), before.sold[table]?.paid_minor ?? 0n);
    had[period] += larger(kept, 0n);
    const free = larger(cap.amount_minor - othersIn(period), smaller(cap.amount_minor, had[period]));
    const roomMinor = larger(free - taken[period], 0n);
    const amountMinor = smaller(earns, roomMinor);
    taken[period] += amountMinor;
    shares.set(table, { amountMinor, roomMinor });
  }
  return shares;
};

/**
 * The payable amount of each part. In total it equals the earnings of the month without the sales
 * under review, so that a rejected review takes back nothing that was payable. It never exceeds the
 * earnings of the part.
 */
export const payableOf = (counted: SaleCounts, before: Count): ReadonlyMap<string, bigint> => {
  const whole = inOrder(counted.month).map(([table, { paid_minor }]) => [table, paid_minor] as const);
  const isReviewed = ({ held_units }: TierSales): boolean =>
    held_units.value_minor !== 0n || held_units.sales_ppm !== 0n;
  if (!Object.values(counted.month.sold).some(isReviewed)) return new Map(whole);
  const clear = sharesOf(counted, before, withoutReviews);
  const own = new Map(whole.map(([table, paid]) => [table, smaller(paid, clear.get(table)!.amountMinor)]));
  const clearMinor = sumOf([...clear.values()].map(({ amountMinor }) => amountMinor));
  let beyond = smaller(clearMinor, sumOf(whole.map(([, paid]) => paid))) - sumOf(own.values());
  for (const [table, paid] of whole) {
    const more = smaller(beyond, paid - own.get(table)!);
    own.set(table, own.get(table)! + more);
    beyond -= more;
  }
  return own;
};

// Computes the earnings of a month's volume: each part at its own tier (marginal), or all of it at
// the highest tier reached (retroactive).
import { divideHalfEven } from "../../../domain/money.ts";
import type { Contract } from "../../../domain/reference/reference.ts";
import type { Scale } from "../memory-format.ts";
import { type Inputs, moneyOf, percentOf, plain, WHOLE_PPM } from "../worth.ts";

/**
 * Reads how a tiered contract pays. Undefined if the stored terms are inconsistent; such a contract
 * pays nothing, which is safer than a guess.
 */
export const scaleOf = ({ tiers, tier_mode, currency, cap }: Contract): Scale | undefined => {
  const per = tiers[0]?.rate_ppm == null ? "sale" : "value";
  const unit = per === "sale" ? WHOLE_PPM : 1n;
  const steps = tiers.flatMap(({ from, rate_ppm, amount_minor }) => {
    const price = per === "sale" ? amount_minor : rate_ppm;
    return price === null ? [] : { from: from * unit, price };
  });
  const isAscending = steps.every(({ from }, n) => (n === 0 ? from === 0n : from > steps[n - 1]!.from));
  if (currency === null || steps.length === 0 || steps.length < tiers.length || !isAscending || cap?.period === "day")
    return undefined;
  return { mode: tier_mode, per, currency, steps, cap };
};

/**
 * The place of one table's units within the month: above `below`, which was sold under earlier
 * terms, in a month of `month` units in total. Units are of the table's own kind.
 */
export interface Place {
  readonly below: bigint;
  readonly own: bigint;
  readonly month: bigint;
}

/** The index of the tier that a volume has reached. */
export const reachedBy = (units: bigint, { steps }: Scale): number => steps.findLastIndex(({ from }) => from <= units);
const priceOf = (units: bigint, scale: Scale): bigint => scale.steps[reachedBy(units, scale)]!.price;

/** The price of the units, each part at its tier, in millionths of a minor unit. */
const inTiers = (units: bigint, { steps }: Scale): bigint =>
  steps.reduce((sum, { from, price }, n) => {
    const to = steps[n + 1]?.from;
    const end = to === undefined || to > units ? units : to;
    return end > from ? sum + (end - from) * price : sum;
  }, 0n);
const rounded = (exact: bigint): bigint => divideHalfEven(exact, WHOLE_PPM);

/**
 * The earnings of the part before caps, in minor units. In marginal mode it is the difference of
 * two rounded totals, so that the parts add up exactly.
 */
export const earnsAt = ({ below, own, month }: Place, scale: Scale): bigint =>
  scale.mode === "retroactive"
    ? rounded(own * priceOf(month, scale))
    : rounded(inTiers(below + own, scale)) - rounded(inTiers(below, scale));

/** The earnings that a sale adds to its part, priced at the tier that is reached with it. */
export const addedBy = (before: Place, after: Place, scale: Scale): bigint => {
  if (scale.mode === "marginal") return earnsAt(after, scale) - earnsAt(before, scale);
  return earnsAt(after, scale) - earnsAt({ ...before, month: after.month }, scale);
};

/** True if no unit of the sale lies in a tier that pays. */
export const isUnpaid = (before: Place, after: Place, scale: Scale): boolean => {
  if (scale.steps[0]!.price !== 0n) return false;
  if (scale.mode === "retroactive") return priceOf(after.month, scale) === 0n;
  return inTiers(after.below + after.own, scale) === inTiers(before.below + before.own, scale);
};

const tierWords = ({ per, currency, steps }: Scale): string =>
  steps
    .map(({ from, price }) =>
      per === "value"
        ? `${percentOf(price)} from ${moneyOf(from, currency)} on`
        : `${moneyOf(price, currency)} a sale from ${plain(from, 6)} sales on`,
    )
    .join(", ");
const hasOthers = ({ own, month }: Place): boolean => own !== month;

/** Describes the volume in the words of a receipt. */
export const volumeWords = (scale: Scale, place: Place): string =>
  `${scale.per === "value" ? "the month's volume" : "the month's number of sales"} ` +
  `(${tierWords(scale)})${hasOthers(place) ? ", for the part that was sold by these terms," : ""}`;

/** Describes the earnings of a sale in words. */
export const saleFormula = (after: Place, scale: Scale): string => {
  const words = volumeWords(scale, after);
  if (scale.mode === "marginal")
    return (
      `amount = what ${words} earns with this sale, each part at its tier, less what it earned ` +
      "without, both rounded half to even"
    );
  const price = priceOf(after.month, scale);
  const reached = scale.per === "value" ? percentOf(price) : `${moneyOf(price, scale.currency)} a sale`;
  return `amount = ${words} with this sale at ${reached} less the same without, both rounded half to even`;
};

/**
 * Lists the tiers and the volume before and after for a receipt. A partly refunded sale counts in
 * part. If the month also has sales under other terms, the part under these terms is listed
 * separately.
 */
export const volumeInputs = (month: string, before: Place, after: Place, scale: Scale): Inputs => {
  const isByValue = scale.per === "value";
  const text = (units: bigint): string => (isByValue ? units.toString() : plain(units, 6));
  const name = (what: string): string => (isByValue ? `${what}_minor` : `${what}_sales`);
  return {
    currency: scale.currency,
    month,
    tier_mode: scale.mode,
    tiers: scale.steps.map(({ from, price }) =>
      isByValue
        ? { from_minor: from.toString(), rate_ppm: price.toString() }
        : { from_sales: plain(from, 6), amount_minor: price.toString() },
    ),
    ...(isByValue
      ? { volume_before_minor: text(before.month), volume_after_minor: text(after.month) }
      : { sales_before: text(before.month), sales_after: text(after.month) }),
    ...(hasOthers(before) || hasOthers(after)
      ? {
          [name("earlier_terms")]: text(after.below),
          [name("own_before")]: text(before.own),
          [name("own_after")]: text(after.own),
        }
      : {}),
  };
};

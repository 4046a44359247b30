// What a month's volume earns: each part of it at its own tier (marginal), or all of it at the tier
// that it reached (retroactive).
import { divideHalfEven } from "../../domain/money.ts";
import type { Contract } from "../../domain/reference/reference.ts";
import type { Scale } from "./earned.ts";
import { type Inputs, moneyOf, percentOf, plain, WHOLE_PPM } from "./worth.ts";

/**
 * How a tiered contract pays; undefined when what is stored makes no sense: such a contract pays
 * nothing rather than anything.
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

/** Which tier a volume has reached. */
export const reachedBy = (units: bigint, { steps }: Scale): number => steps.findLastIndex(({ from }) => from <= units);
const priceOf = (units: bigint, scale: Scale): bigint => scale.steps[reachedBy(units, scale)]!.price;

/** In millionths of a minor unit. */
const exactOf = (units: bigint, { mode, steps }: Scale, reached: number): bigint => {
  if (mode === "retroactive") return units * steps[reached]!.price;
  return steps.reduce((sum, { from, price }, n) => {
    const to = steps[n + 1]?.from;
    const end = to === undefined || to > units ? units : to;
    return end > from ? sum + (end - from) * price : sum;
  }, 0n);
};

/** What a volume earns before caps, rounded half to even once, in minor units. */
export const totalOf = (units: bigint, scale: Scale): bigint =>
  divideHalfEven(exactOf(units, scale, reachedBy(units, scale)), WHOLE_PPM);

/**
 * What a sale adds to a volume, at the prices of the tier that is reached with it. The difference
 * of two rounded totals: their sum is exact.
 */
export const addedBy = (before: bigint, after: bigint, scale: Scale): bigint => {
  const reached = reachedBy(after, scale);
  return (
    divideHalfEven(exactOf(after, scale, reached), WHOLE_PPM) -
    divideHalfEven(exactOf(before, scale, reached), WHOLE_PPM)
  );
};

/** Whether no part of a sale lies in a tier that pays. */
export const isUnpaid = (before: bigint, after: bigint, scale: Scale): boolean =>
  exactOf(after, scale, reachedBy(after, scale)) === exactOf(before, scale, reachedBy(after, scale)) &&
  scale.steps[0]!.price === 0n;

const tierWords = ({ per, currency, steps }: Scale): string =>
  steps
    .map(({ from, price }) =>
      per === "value"
        ? `${percentOf(price)} from ${moneyOf(from, currency)} on`
        : `${moneyOf(price, currency)} a sale from ${plain(from, 6)} sales on`,
    )
    .join(", ");

/** How receipts speak of the volume. */
export const volumeWords = (scale: Scale): string =>
  `${scale.per === "value" ? "the month's volume" : "the month's number of sales"} (${tierWords(scale)})`;

/** What a sale earns, in words. */
export const saleFormula = (after: bigint, scale: Scale): string => {
  if (scale.mode === "marginal")
    return `amount = what ${volumeWords(scale)} earns with this sale, each part at its tier, less what it earned without, both rounded half to even`;
  const price = priceOf(after, scale);
  const reached = scale.per === "value" ? percentOf(price) : `${moneyOf(price, scale.currency)} a sale`;
  return `amount = ${volumeWords(scale)} with this sale at ${reached} less the same without, both rounded half to even`;
};

const unitsText = (units: bigint, { per }: Scale): string => (per === "value" ? units.toString() : plain(units, 6));

/**
 * The tiers and the volume before and after, as a receipt lists them; a sale that was partly
 * refunded counts in part.
 */
export const volumeInputs = (month: string, before: bigint, after: bigint, scale: Scale): Inputs => ({
  currency: scale.currency,
  month,
  tier_mode: scale.mode,
  tiers: scale.steps.map(({ from, price }) =>
    scale.per === "value"
      ? { from_minor: from.toString(), rate_ppm: price.toString() }
      : { from_sales: plain(from, 6), amount_minor: price.toString() },
  ),
  ...(scale.per === "value"
    ? { volume_before_minor: unitsText(before, scale), volume_after_minor: unitsText(after, scale) }
    : { sales_before: unitsText(before, scale), sales_after: unitsText(after, scale) }),
});

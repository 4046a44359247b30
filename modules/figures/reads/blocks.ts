// Builds the blocks of figures in API responses: counts, money in one currency, the other
// currencies, and ratios.
import { toDecimal } from "../../../domain/money.ts";
import type { Clicks } from "./click-figures.ts";
import { delta, each, ratio } from "./ratios.ts";
import type { Kind, Period, SoldFigure, SplitBy } from "./sold-figures.ts";

type FigureRow = Readonly<Record<string, any>>;
interface Place {
  readonly period: Period;
  readonly by: SplitBy | "total";
  readonly value: string | null;
}
interface Amounts {
  readonly n: number;
  readonly amount: bigint;
  readonly refunded: bigint;
}

const NOTHING: Amounts = { n: 0, amount: 0n, refunded: 0n };
export const CURRENT: Place = { period: "current", by: "total", value: null };
const PREVIOUS: Place = { period: "previous", by: "total", value: null };
export const placeOf = (by: SplitBy, value: string | null): Place => ({ period: "current", by, value });

/** Looks up figures by period, group and currency. */
export interface FiguresByPlace {
  readonly of: (kind: Kind, place: Place, currency?: string) => Amounts;
  readonly currencies: readonly string[];
  /** Groups with a figure in the current period. */
  readonly values: (by: SplitBy) => readonly (string | null)[];
}

export const ledgered = (figures: readonly SoldFigure[]): FiguresByPlace => {
  const keyOf = (kind: Kind, { period, by, value }: Place, currency: string | null): string =>
    JSON.stringify([kind, period, by, value, currency]);
  const known = new Map(figures.map((one): [string, Amounts] => [keyOf(one.kind, one, one.currency), one]));
  return {
    of: (kind, place, currency) => known.get(keyOf(kind, place, currency ?? null)) ?? NOTHING,
    currencies: [...new Set(figures.flatMap(({ currency }) => currency ?? []))].sort(),
    values: (by) =>
      [...new Set(figures.flatMap((one) => (one.by === by && one.period === "current" ? [one.value] : [])))].sort(),
  };
};

/** Money of one place in one currency. `clicks` is undefined where clicks do not exist. */
const moneyIn = (known: FiguresByPlace, place: Place, currency: string, clicks?: Clicks): FigureRow => {
  const sold = known.of("sold", place, currency);
  const { amount: commission } = known.of("earned", place, currency);
  const net = sold.amount - sold.refunded;
  const shown = (minor: bigint) => toDecimal(minor, currency);
  return {
    gross: shown(sold.amount),
    refunded: shown(sold.refunded),
    net: shown(net),
    aov: each(sold.amount, sold.n, currency),
    refund_rate: ratio(sold.refunded, sold.amount),
    commission: shown(commission),
    roas: ratio(net, commission),
    ...(clicks && { epc: each(commission, clicks.clicks, currency, 2) }),
    currency,
  };
};

/** All figures of one place. The contract of the response keeps those that its reader may see. */
export const blockOf = (known: FiguresByPlace, place: Place, currency: string, clicks?: Clicks): FigureRow => {
  const conversions = known.of("credited", place).n;
  return {
    ...(clicks && {
      clicks: clicks.clicks,
      filtered_clicks: clicks.filtered,
      repeat_clicks: clicks.repeats,
      conversion_rate: ratio(conversions, clicks.clicks),
    }),
    conversions,
    orders: known.of("sold", place).n,
    ...moneyIn(known, place, currency, clicks),
    other_currencies: known.currencies
      .filter((code) => code !== currency && hasMoney(known, place, code))
      .map((code) => moneyIn(known, place, code, clicks)),
  };
};

const hasMoney = (known: FiguresByPlace, place: Place, currency: string): boolean => {
  const sold = known.of("sold", place, currency);
  return sold.n > 0 || sold.refunded !== 0n || known.of("earned", place, currency).amount !== 0n;
};

/** The change of each figure against the period before; all null when that period is incomplete. */
export const deltasOf = (
  known: FiguresByPlace,
  currency: string,
  clicks: Readonly<Record<Period, Clicks>>,
  isKnown: boolean,
): FigureRow => {
  const change = (now: bigint | number, before: bigint | number) => (isKnown ? delta(now, before) : null);
  const [sold, soldBefore] = [known.of("sold", CURRENT, currency), known.of("sold", PREVIOUS, currency)];
  return {
    clicks: change(clicks.current.clicks, clicks.previous.clicks),
    conversions: change(known.of("credited", CURRENT).n, known.of("credited", PREVIOUS).n),
    orders: change(known.of("sold", CURRENT).n, known.of("sold", PREVIOUS).n),
    gross: change(sold.amount, soldBefore.amount),
    refunded: change(sold.refunded, soldBefore.refunded),
    net: change(sold.amount - sold.refunded, soldBefore.amount - soldBefore.refunded),
    commission: change(known.of("earned", CURRENT, currency).amount, known.of("earned", PREVIOUS, currency).amount),
  };
};

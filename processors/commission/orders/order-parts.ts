// The part of each line in what its order earns by amounts that pay once, and the lines whose part
// is another one when a line has left. Computed of the order's lines alone, without their sales.

import { LEDGER_MAX, larger, smaller } from "../worth.ts";
import { groupOf, type OrderLine, type OrderLines, type OrderPay } from "./order-format.ts";

export type PaidLine = OrderLine & { readonly pays: OrderPay };
/** Lines of one currency share the amounts; those that count for a month of tiers do not. */
const shares = (line: OrderLine, currency: string): line is PaidLine =>
  line.pays !== null && line.currency === currency;

/** The line that carries the order's amounts. */
export const carrierOf = (lines: readonly OrderLine[], currency: string): OrderLine | undefined =>
  lines.find((one) => shares(one, currency));

/** What lines with these sums earn by the amounts of the line that carries them. */
const earnsBy = ({ flat_minor, min_minor, max_minor }: OrderPay, rateMinor: bigint, valueMinor: bigint): bigint => {
  let amountMinor = flat_minor + rateMinor;
  if (min_minor !== null && valueMinor > 0n) amountMinor = larger(amountMinor, min_minor);
  if (max_minor !== null) amountMinor = smaller(amountMinor, max_minor);
  return smaller(amountMinor, LEDGER_MAX);
};

export interface OrderPart {
  readonly line: OrderLine;
  /** What the rates of the lines before make, and the value of these lines. */
  readonly rateBefore: bigint;
  readonly valueBefore: bigint;
  readonly earnsBefore: bigint;
  readonly earns: bigint;
}
/** The parts of all lines sum to what the order earns. */
export const amountOf = ({ earns, earnsBefore }: OrderPart): bigint => earns - earnsBefore;

interface Sums {
  readonly rate: bigint;
  readonly value: bigint;
  /** The amounts of the first line; undefined: there is no line. */
  readonly carried: OrderPay | undefined;
}
const sumsOf = (lines: Iterable<OrderLine>, currency: string, end?: OrderLine): Sums => {
  let [rate, value] = [0n, 0n];
  let carried: OrderPay | undefined;
  for (const line of lines) {
    if (line === end) break;
    if (!shares(line, currency)) continue;
    carried ??= line.pays;
    rate += line.pays.rate_minor;
    value += line.value_minor;
  }
  return { rate, value, carried };
};
const withLine = ({ rate, value, carried }: Sums, line: PaidLine): Sums => ({
  rate: rate + line.pays.rate_minor,
  value: value + line.value_minor,
  carried: carried ?? line.pays,
});
const earnsOf = ({ carried, rate, value }: Sums): bigint =>
  carried === undefined ? 0n : earnsBy(carried, rate, value);

/** The part of a line that comes behind these. */
export const partBehind = (lines: readonly OrderLine[], line: PaidLine): OrderPart => {
  const before = sumsOf(lines, line.currency);
  const { rate: rateBefore, value: valueBefore, carried = line.pays } = before;
  const earns = earnsBy(carried, rateBefore + line.pays.rate_minor, valueBefore + line.value_minor);
  return { line, rateBefore, valueBefore, earnsBefore: earnsOf(before), earns };
};

export interface MovedPart {
  readonly part: OrderPart;
  /** What its line had while the lines that left were there. */
  readonly wasMinor: bigint;
}
/**
 * The lines that have another part without those that are gone, in their order within a currency.
 * The parts of the lines before the first of these stay as they are.
 */
export const movedBy = (lines: readonly OrderLine[], gone: readonly OrderLine[]): readonly MovedPart[] =>
  [...new Set(gone.map(({ currency }) => currency))].flatMap((currency) => {
    const going = new Set(gone.filter((line) => shares(line, currency)));
    return going.size === 0 ? [] : movedIn(lines, going, currency);
  });

const movedIn = (lines: readonly OrderLine[], gone: ReadonlySet<OrderLine>, currency: string): readonly MovedPart[] => {
  const first = lines.findIndex((line) => gone.has(line));
  let was = sumsOf(lines, currency, lines[first]);
  let now = was;
  const moved: MovedPart[] = [];
  for (let n = first; n < lines.length; n += 1) {
    const line = lines[n]!;
    if (!shares(line, currency)) continue;
    const earnedBefore = earnsOf(was);
    was = withLine(was, line);
    if (gone.has(line)) continue;
    const wasMinor = earnsOf(was) - earnedBefore;
    const { rate: rateBefore, value: valueBefore } = now;
    const earnsBefore = earnsOf(now);
    now = withLine(now, line);
    const earns = earnsOf(now);
    if (earns - earnsBefore !== wasMinor)
      moved.push({ part: { line, rateBefore, valueBefore, earnsBefore, earns }, wasMinor });
  }
  return moved;
};

/**
 * The line that counts as the order's sale in a month of tiers, once the one that did has left.
 * Undefined if another line counts.
 */
export const heirOf = (lines: readonly OrderLine[], gone: OrderLine): OrderLine | undefined => {
  if (gone.pays !== null) return undefined;
  const counting = lines.findIndex(({ pays }) => pays === null);
  return lines[counting] === gone ? lines.slice(counting + 1).find(({ pays }) => pays === null) : undefined;
};

/** The order without lines that are gone. It is remembered that one of them had a value. */
export const withoutLines = (order: OrderLines, gone: readonly OrderLine[]): OrderLines => {
  const groups = gone.filter(({ value_minor }) => value_minor > 0n).map(groupOf);
  return {
    ...order,
    had_value: [...new Set([...order.had_value, ...groups])],
    lines: order.lines.filter((line) => !gone.includes(line)),
  };
};

/**
 * The lines of 0 that carry amounts, each those of its group. The first line of value takes them.
 */
export const givingWay = (lines: readonly OrderLine[]): readonly OrderLine[] => {
  const carriers = new Map(lines.toReversed().map((line) => [groupOf(line), line]));
  return [...carriers.values()].filter(({ value_minor }) => value_minor === 0n);
};

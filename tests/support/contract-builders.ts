// Contracts as people write them, histories of sales and refunds for commission, and amounts
// recomputed from receipts.
import { monthOf } from "../../domain/calendar.ts";
import { divideHalfEven } from "../../domain/money.ts";
import type { Contract } from "../../domain/reference/reference.ts";
import { termColumns } from "../../modules/catalog/contracts/contract-terms.ts";
import { entities } from "../../modules/catalog/reference/entities.ts";
import { capOf, tiersOf } from "../../modules/catalog/reference/rows.ts";
import { smaller } from "../../processors/commission/worth.ts";
import type { Conversion, LedgerEntry } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { clientId, contract, longAgo, noon, partnerId } from "./builders.ts";
import { change } from "./money-builders.ts";

/**
 * The contract that a stage knows after somebody saved these terms for purchases in this currency:
 * they pass the checks and the columns of saving. Throws if they are refused.
 */
export const written = (terms: object, currency = "MXN"): Contract => {
  const record = entities.contracts.record.parse({
    partner_id: partnerId,
    client_id: clientId,
    event_type: "purchase",
    effective_from: "2020-01-01",
    ...terms,
  });
  const row = termColumns(record, currency);
  const minor = (digits: string | null): bigint | null => (digits === null ? null : BigInt(digits));
  return contract({
    segment: record.segment,
    type: row.type,
    rate_ppm: row.rate === null ? null : BigInt(Math.round(Number(row.rate) * 10_000)),
    currency: row.currency,
    amount_minor: minor(row.amount_minor),
    tiers: tiersOf(row.tiers),
    tier_mode: row.tier_mode ?? "marginal",
    months: row.months,
    per: row.per,
    min_minor: minor(row.min_minor),
    max_minor: minor(row.max_minor),
    cap: capOf(row.cap_period, minor(row.cap_minor)),
    effective_from: longAgo - 6 * 365 * 86_400_000,
  });
};

/**
 * One event of a history: a sale, a refund of the sale with that number (at most its remaining
 * amount), or the release of its review.
 */
export type Happening =
  | { readonly sale: bigint; readonly over?: Partial<Conversion> }
  | { readonly refundOf: number; readonly minor: bigint }
  | { readonly releaseOf: number };

/**
 * The change records of a history. It skips refunds of sales that do not exist or are refunded
 * already.
 */
export const history = (happenings: readonly Happening[]): readonly Recorded<Conversion>[] => {
  const sales: { readonly data: Conversion; refunded: bigint; version: number; isClosed: boolean }[] = [];
  return happenings.flatMap((one, n) => {
    if ("sale" in one) {
      const id = `cnv_${sales.length}`;
      const value = { value_minor: one.sale, line_value_minor: one.sale };
      const order = { order_id: `order ${sales.length}` };
      const made = change({
        occurred_at: noon,
        ...order,
        ...one.over,
        ...value,
        conversion_id: id,
        change_id: `chg_${n}`,
      });
      sales.push({ data: made.data, refunded: 0n, version: 1, isClosed: false });
      return [made];
    }
    const sale = sales["releaseOf" in one ? one.releaseOf : one.refundOf];
    if (sale === undefined) return [];
    const { data } = sale;
    if ("releaseOf" in one) {
      sale.version += 1;
      const state = { value_minor: 0n, refunded_minor: sale.refunded, version: sale.version, change_id: `chg_${n}` };
      return [change({ ...data, ...state, kind: "released", review: null, reason: "agreed" })];
    }
    const left = data.line_value_minor - sale.refunded;
    const part = smaller(one.minor, left);
    if (sale.isClosed) return [];
    sale.isClosed = left === part;
    sale.refunded += part;
    sale.version += 1;
    const taken = { value_minor: part, refunded_minor: sale.refunded, version: sale.version, change_id: `chg_${n}` };
    return [change({ ...data, ...taken, kind: "reversed", reason: "item_returned" })];
  });
};
/** The history, followed by a full refund of every sale. */
export const takenBack = (happenings: readonly Happening[]): readonly Happening[] => [
  ...happenings,
  ...happenings.map((_, n) => ({ refundOf: n, minor: 10n ** 30n })),
];

export const sumOf = (entries: readonly LedgerEntry[]): bigint =>
  entries.reduce((sum, { amount_minor }) => sum + amount_minor, 0n);

/** What each entry says: of which conversion, how much and why. */
export const reported = (entries: readonly LedgerEntry[]) =>
  entries.map(({ conversion_id, amount_minor, reason }) => [conversion_id, amount_minor, reason]);
/** What the entries leave of each conversion. */
export const leftBy = (entries: readonly LedgerEntry[]): Readonly<Record<string, bigint>> => {
  const left: Record<string, bigint> = {};
  for (const { conversion_id, amount_minor } of entries)
    left[conversion_id] = (left[conversion_id] ?? 0n) + amount_minor;
  return left;
};

/**
 * The earnings of a volume under tiers, computed in the simplest way: unit by unit, without the
 * code under test.
 */
export const volumeEarns = (units: bigint, { tiers, tier_mode }: Pick<Contract, "tiers" | "tier_mode">): bigint => {
  const scale = tiers[0]?.rate_ppm === null ? 1_000_000n : 1n;
  const priced = tiers.map(({ from, rate_ppm, amount_minor }) => ({
    from: from * scale,
    price: rate_ppm ?? amount_minor!,
  }));
  if (tier_mode === "retroactive")
    return divideHalfEven(units * priced.filter(({ from }) => from <= units).at(-1)!.price, 1_000_000n);
  let left = units;
  let sum = 0n;
  for (const { from, price } of priced.toReversed())
    if (left > from) {
      sum += (left - from) * price;
      left = from;
    }
  return divideHalfEven(sum, 1_000_000n);
};

const big = (text: string | undefined): bigint => BigInt(text ?? "0");
/** Parses a number of sales such as "2.25" into millionths. */
const millionths = (text: string): bigint => {
  const [whole, fraction = ""] = text.split(".");
  return BigInt(whole + fraction.padEnd(6, "0"));
};
const tiersIn = ({ tiers, tier_mode }: any): Pick<Contract, "tiers" | "tier_mode"> => ({
  tier_mode,
  tiers: tiers.map((one: any) => ({
    from: BigInt(one.from_minor ?? one.from_sales),
    rate_ppm: one.rate_ppm === undefined ? null : BigInt(one.rate_ppm),
    amount_minor: one.amount_minor === undefined ? null : BigInt(one.amount_minor),
  })),
});

/** What a line of an order earns, or gains because another one has left it. */
const computedInOrder = (inputs: any, withinCap: (amount: bigint) => bigint): bigint => {
  const earns = (rates: bigint, value: bigint): bigint => {
    let amount = big(inputs.flat_minor) + rates;
    if (inputs.min_minor !== undefined && value > 0n && amount < big(inputs.min_minor)) amount = big(inputs.min_minor);
    return inputs.max_minor === undefined ? amount : smaller(amount, big(inputs.max_minor));
  };
  const [rates, value] = [big(inputs.order_rates_before_minor), big(inputs.order_value_before_minor)];
  const [rate, own] = [big(inputs.line_rate_minor), big(inputs.line_value_minor)];
  const isFirst = inputs.order_earned_before_minor === "0";
  const due = earns(rates + rate, value + own) - (isFirst ? 0n : earns(rates, value));
  if (inputs.line_due_before_minor === undefined) return withinCap(due);
  const [before, back] = [big(inputs.earned_before_minor), big(inputs.reversed_before_minor)];
  const more = due - big(inputs.line_due_before_minor);
  const now = more > 0n ? before + withinCap(more) : smaller(before, due);
  return now - (own === 0n ? 0n : divideHalfEven(now * big(inputs.refunded_minor), own)) - (before - back);
};

/**
 * Computes the amount of an entry from the numbers of its receipt alone, as a partner would. The
 * text of the formula says the same.
 */
export const computedAgain = ({ kind, commission_type, inputs: text }: LedgerEntry): bigint => {
  const inputs = JSON.parse(text);
  if (inputs.released_minor !== undefined) return 0n;
  if (inputs.first_sale !== undefined) return big(inputs.reversed_before_minor) - big(inputs.earned_minor);
  if (kind === "reversal")
    return (
      big(inputs.reversed_before_minor) -
      (inputs.line_value_minor === "0"
        ? big(inputs.earned_minor)
        : divideHalfEven(big(inputs.earned_minor) * big(inputs.refunded_minor), big(inputs.line_value_minor)))
    );
  const room = inputs.cap_minor === undefined ? undefined : big(inputs.cap_minor) - big(inputs.cap_used_before_minor);
  const withinCap = (amount: bigint): bigint => (room === undefined || amount <= room ? amount : room > 0n ? room : 0n);
  if (inputs.order_earns_minor !== undefined) return computedInOrder(inputs, withinCap);
  if (commission_type === "tiered") {
    const terms = tiersIn(inputs);
    const after =
      inputs.volume_after_minor === undefined ? millionths(inputs.sales_after) : big(inputs.volume_after_minor);
    const before =
      inputs.volume_before_minor === undefined ? millionths(inputs.sales_before) : big(inputs.volume_before_minor);
    /**
     * If the month had several terms: the part of these terms, and the sales under earlier terms.
     */
    const read = (name: string): bigint | undefined =>
      inputs[`${name}_minor`] !== undefined
        ? big(inputs[`${name}_minor`])
        : inputs[`${name}_sales`] === undefined
          ? undefined
          : millionths(inputs[`${name}_sales`]);
    const below = read("earlier_terms") ?? 0n;
    const own = { before: read("own_before") ?? before, after: read("own_after") ?? after };
    const unit = terms.tiers[0]!.rate_ppm === null ? 1_000_000n : 1n;
    const reached = {
      tier_mode: "retroactive" as const,
      tiers: terms.tiers
        .filter(({ from }) => from * unit <= after)
        .slice(-1)
        .map((one) => ({ ...one, from: 0n })),
    };
    const isMarginal = terms.tier_mode === "marginal";
    const earns = (units: bigint): bigint =>
      isMarginal ? volumeEarns(below + units, terms) - volumeEarns(below, terms) : volumeEarns(units, reached);
    if (kind === "tier_adjustment") {
      const missing = earns(own.after) - big(inputs.earned_before_minor);
      return room === undefined || missing <= room ? missing : room;
    }
    return withinCap(earns(own.after) - earns(own.before));
  }
  let amount = big(inputs.flat_minor);
  if (inputs.rate_ppm !== undefined)
    amount += divideHalfEven(big(inputs.line_value_minor) * big(inputs.rate_ppm), 1_000_000n);
  if (inputs.min_minor !== undefined && amount < big(inputs.min_minor)) amount = big(inputs.min_minor);
  if (inputs.max_minor !== undefined && amount > big(inputs.max_minor)) amount = big(inputs.max_minor);
  if (inputs.ledger_max_minor !== undefined && amount > big(inputs.ledger_max_minor))
    amount = big(inputs.ledger_max_minor);
  return withinCap(amount);
};

/** The period of the cap that a sale belongs to. */
export const capPeriodOf = (period: "day" | "month" | "lifetime", occurredAt: number): string => {
  if (period === "lifetime") return "all";
  const shifted = new Date(occurredAt - 6 * 3_600_000).toISOString();
  const { year, month } = monthOf(occurredAt);
  return period === "day" ? shifted.slice(0, 10) : `${year}-${month}`;
};

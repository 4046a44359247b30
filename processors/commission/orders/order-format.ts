// What commission remembers of an order under contracts that pay once an order, and its bytes.
import type { Cap, CapPeriod } from "../../../domain/reference/reference.ts";
import type { UnixMs } from "../../../stream/flow.ts";

/** The amounts of a line's contract, and what its rate alone makes of the line. */
export interface OrderPay {
  readonly rate_minor: bigint;
  readonly flat_minor: bigint;
  readonly min_minor: bigint | null;
  readonly max_minor: bigint | null;
  readonly cap: Cap | null;
}
/** What an entry says of its sale, for one that another sale causes. */
export interface SoldLine {
  /** The version of the conversion when this line was last counted. */
  readonly version: number;
  readonly at: UnixMs;
  readonly event_type: string;
  readonly segment: string | null;
  readonly campaign_id: number | null;
  readonly currency: string;
}
/** A credited line that is not gone: neither taken back nor refunded as a whole. */
export interface OrderLine extends SoldLine {
  readonly conversion_id: string;
  readonly value_minor: bigint;
  readonly refunded_minor: bigint;
  /** Null: the line counts for a month of tiers. */
  readonly pays: OrderPay | null;
}
/**
 * The lines of one order that one partner is credited for, under contracts of one segment and event
 * type, in the order in which they were credited. Not remembered for contracts that pay each line.
 */
export interface OrderLines {
  readonly is: "order";
  /** The contracts' own segment and event type: they name the counts of the lines' periods. */
  readonly contract_segment: string | null;
  readonly counts_as: string;
  /** The groups of lines of which one with a value has been there and is gone (`groupOf`). */
  readonly had_value: readonly string[];
  readonly lines: readonly OrderLine[];
}
/**
 * Lines share amounts with those of their own group: a currency's, or the one that counts for
 * months of tiers.
 */
export const groupOf = ({ pays, currency }: OrderLine): string => (pays === null ? "" : currency);

const plainPay = ({ rate_minor, flat_minor, min_minor, max_minor, cap }: OrderPay): readonly unknown[] => [
  rate_minor.toString(),
  flat_minor.toString(),
  min_minor?.toString() ?? null,
  max_minor?.toString() ?? null,
  ...(cap === null ? [] : [cap.period, cap.amount_minor.toString()]),
];
/** Lists without field names, because an order may have 2,000 lines. */
export const plainOrder = ({ lines, had_value, ...order }: OrderLines): object => ({
  ...order,
  ...(had_value.length === 0 ? {} : { had_value }),
  lines: lines.map((one) => [
    one.conversion_id,
    one.version,
    one.at,
    one.event_type,
    one.segment,
    one.campaign_id,
    one.currency,
    one.value_minor.toString(),
    one.refunded_minor.toString(),
    ...(one.pays === null ? [] : [plainPay(one.pays)]),
  ]),
});

type PlainPay = readonly [string, string, string | null, string | null, CapPeriod?, string?];
const payOf = ([rate, flat, min, max, period, cap]: PlainPay): OrderPay => ({
  rate_minor: BigInt(rate),
  flat_minor: BigInt(flat),
  min_minor: min === null ? null : BigInt(min),
  max_minor: max === null ? null : BigInt(max),
  cap: period === undefined || cap === undefined ? null : { period, amount_minor: BigInt(cap) },
});
const lineOf = (list: readonly any[]): OrderLine => {
  const [conversion_id, version, at, event_type, segment, campaign_id, currency, value, refunded, pays] = list;
  return {
    ...{ conversion_id, version, at, event_type, segment, campaign_id, currency },
    value_minor: BigInt(value),
    refunded_minor: BigInt(refunded),
    pays: pays === undefined ? null : payOf(pays),
  };
};
export const orderOf = ({ contract_segment, counts_as, had_value, lines }: any): OrderLines => ({
  is: "order",
  contract_segment,
  counts_as,
  had_value: had_value ?? [],
  lines: lines.map(lineOf),
});

// The types of what commission remembers, and their bytes in the current format and in older ones.
import type { Cap, CapPeriod } from "../../domain/reference/reference.ts";
import type { UnixMs } from "../../stream/flow.ts";
import {
  type Customer,
  type CustomerMonth,
  customerMonthOf,
  customerOf,
  lineOf,
  plainCustomer,
  withLine,
} from "./customer/format.ts";
import { type OrderLines, orderOf, plainOrder, type SoldLine } from "./orders/order-format.ts";

export interface EarnedSale {
  readonly is: "conversion";
  /** The entry that a reversal refers to. Null if nothing was earned; `reason` then says why. */
  readonly entry_id: string | null;
  readonly reason: string | null;
  readonly earned_minor: bigint;
  readonly reversed_minor: bigint;
  readonly held: boolean;
  readonly payable_from: UnixMs | null;
  readonly contract_id: number | null;
  readonly contract_version: number | null;
  readonly commission_type: string | null;
  /**
   * The contract's own segment. With the time and type of the sale it names the counts that a
   * refund must reduce.
   */
  readonly contract_segment: string | null;
  /**
   * The event type whose counts include this sale. Null means its own type, from the time when each
   * type had its own counts.
   */
  readonly counts_as: string | null;
  readonly cap_period: CapPeriod | null;
  /**
   * The volume that the sale added to its month (tiered contracts only), and how much of it refunds
   * took out again.
   */
  readonly units: Volume | null;
  readonly units_back: Volume;
  /**
   * The part of the month's volume that the sale belongs to. Null in the oldest format: the part of
   * its contract.
   */
  readonly table: string | null;
  /**
   * Only for sales without `table`: the amount that the month earned through this sale while it is
   * under review.
   */
  readonly won_held: bigint;
  /** Only for a sale whose customer's months may turn out to begin earlier, else null. */
  readonly line: SoldLine | null;
}
/**
 * A volume in money and in sales. Tiers count only one of the two, but both are kept so that a
 * later contract can count the other.
 */
export interface Volume {
  readonly value_minor: bigint;
  /** Millionths of a sale, because a partly refunded sale counts in part. */
  readonly sales_ppm: bigint;
}
/**
 * The terms of a tiered contract. Units are minor units of value or millionths of a sale. Prices
 * are minor units for each million units.
 */
export interface Scale {
  readonly mode: "marginal" | "retroactive";
  readonly per: "value" | "sale";
  readonly currency: string;
  readonly steps: readonly { readonly from: bigint; readonly price: bigint }[];
  readonly cap: Cap | null;
}
/** The part of a month's volume that was sold under one table of tiers. */
export interface TierSales {
  readonly contract_id: number;
  /** The first contract version with this table. Null if unknown, in the oldest format. */
  readonly contract_version: number | null;
  /** The start of the contract. Earlier terms fill the lower part of a month. */
  readonly since: UnixMs;
  readonly scale: Scale;
  readonly units: Volume;
  /** The units that are under review. */
  readonly held_units: Volume;
  /** The commission paid for this part including adjustments, and how much of it is held. */
  readonly paid_minor: bigint;
  readonly held_minor: bigint;
  readonly adjustments: number;
  /**
   * Held amounts of sales that were counted before `held_units` existed. They are freed when those
   * sales are released.
   */
  readonly won_held: bigint;
  /**
   * True if this part dates from the time when contracts were counted separately. It is still
   * counted alone.
   */
  readonly is_alone: boolean;
}
/** The counts of one period, across all contracts. */
export interface Count {
  /** Net of reversals. A cap of this period is compared with this sum. */
  readonly paid_minor: bigint;
  readonly sold: Readonly<Record<string, TierSales>>;
}
interface Counts extends Count {
  readonly is: "counts";
}
export type RememberedMoney = EarnedSale | Counts | Customer | CustomerMonth | OrderLines;

/** Both formats can be read; only `compact` is written. */
const FORMATS = { objects: 1, compact: 2 } as const;
const decoder = new TextDecoder();
type Plain<T> = { readonly [Field in keyof T]: any };

// JSON has no bigint, so amounts are texts. The conversion is written out by hand because every
// conversion record passes here, and a replacer or reviver would be called for each field.
const plainVolume = ({ value_minor, sales_ppm }: Volume) => [value_minor.toString(), sales_ppm.toString()];
const plainScale = ({ steps, cap, ...rest }: Scale) => ({
  ...rest,
  steps: steps.map(({ from, price }) => ({ from: from.toString(), price: price.toString() })),
  cap: cap === null ? null : { period: cap.period, amount_minor: cap.amount_minor.toString() },
});
const plainSold = (sold: TierSales) => ({
  ...sold,
  scale: plainScale(sold.scale),
  units: plainVolume(sold.units),
  held_units: plainVolume(sold.held_units),
  paid_minor: sold.paid_minor.toString(),
  held_minor: sold.held_minor.toString(),
  won_held: sold.won_held === 0n ? undefined : sold.won_held.toString(),
  is_alone: sold.is_alone || undefined,
});

/** An array without field names, because one is stored for every conversion, and forever. */
const listOf = (kept: EarnedSale): readonly unknown[] => {
  const list: unknown[] = [
    FORMATS.compact,
    kept.entry_id === null ? null : kept.entry_id.replace(/^led_/, ""),
    kept.reason,
    kept.earned_minor.toString(),
    kept.reversed_minor.toString(),
    kept.held ? 1 : 0,
    kept.payable_from,
    kept.contract_id,
    kept.contract_version,
    kept.commission_type,
    kept.contract_segment,
    kept.counts_as,
    kept.cap_period,
  ];
  if (kept.units !== null) list.push(plainVolume(kept.units), plainVolume(kept.units_back), kept.table);
  if (kept.units !== null && kept.won_held !== 0n) list.push(kept.won_held.toString());
  return kept.line === null ? list : withLine(list, kept.line);
};
const plainOf = (kept: RememberedMoney): object => {
  if (kept.is === "conversion") return listOf(kept);
  if ("sales" in kept) return { format: FORMATS.compact, ...plainCustomer(kept) };
  if (kept.is === "order") return { format: FORMATS.compact, ...plainOrder(kept) };
  const sold = Object.fromEntries(Object.entries(kept.sold).map(([key, one]) => [key, plainSold(one)]));
  return { format: FORMATS.compact, ...kept, paid_minor: kept.paid_minor.toString(), sold };
};

export const encode = (kept: RememberedMoney): Uint8Array => Buffer.from(JSON.stringify(plainOf(kept)));

const volumeOf = ([value, sales]: readonly [string, string]): Volume => ({
  value_minor: BigInt(value),
  sales_ppm: BigInt(sales),
});
const NO_VOLUME: Volume = { value_minor: 0n, sales_ppm: 0n };
const scaleOf = ({ steps, cap, ...rest }: Plain<Scale>): Scale => ({
  ...(rest as Scale),
  steps: steps.map(({ from, price }: Plain<Scale["steps"][number]>) => ({ from: BigInt(from), price: BigInt(price) })),
  cap: cap === null ? null : { period: cap.period, amount_minor: BigInt(cap.amount_minor) },
});
const soldOf = (sold: Plain<TierSales>): TierSales => ({
  ...(sold as TierSales),
  scale: scaleOf(sold.scale),
  units: volumeOf(sold.units),
  held_units: volumeOf(sold.held_units),
  paid_minor: BigInt(sold.paid_minor),
  held_minor: BigInt(sold.held_minor),
  won_held: BigInt(sold.won_held ?? 0),
  is_alone: sold.is_alone ?? false,
});

const ofList = (list: readonly any[]): EarnedSale => {
  const [, id, reason, earned, reversed, held, payable_from, contract_id, contract_version, type, ...rest] = list;
  const [segment, counts_as, cap_period, units, back, table, wonHeld, line] = rest;
  return {
    is: "conversion",
    entry_id: id === null ? null : `led_${id}`,
    reason,
    earned_minor: BigInt(earned),
    reversed_minor: BigInt(reversed),
    held: held === 1,
    payable_from,
    contract_id,
    contract_version,
    commission_type: type,
    contract_segment: segment,
    counts_as,
    cap_period,
    units: units == null ? null : volumeOf(units),
    units_back: back == null ? NO_VOLUME : volumeOf(back),
    table: table ?? null,
    won_held: BigInt(wonHeld ?? 0),
    line: line === undefined ? null : lineOf(line),
  };
};

/** The old count of one contract, separate from other contracts of the same period. */
interface CountOfContract {
  readonly paid_minor: string;
  readonly units: string;
  readonly adjusted_held_minor: string;
  readonly adjustments: number;
  readonly scale: Plain<Scale> | null;
}
const soldBefore = (contractId: string, count: CountOfContract, scale: Scale, isAlone: boolean): TierSales => {
  const units = BigInt(count.units);
  const held = BigInt(count.adjusted_held_minor);
  return {
    contract_id: Number(contractId),
    contract_version: null,
    since: 0,
    scale,
    units: scale.per === "value" ? { ...NO_VOLUME, value_minor: units } : { ...NO_VOLUME, sales_ppm: units },
    held_units: NO_VOLUME,
    paid_minor: BigInt(count.paid_minor),
    held_minor: held,
    adjustments: count.adjustments,
    won_held: held,
    is_alone: isAlone,
  };
};
/**
 * True if the old count used a monthly cap. Tiers without a cap were counted separately, so their
 * payments are not part of the cap's sum.
 */
const isCapped = (scale: Plain<Scale> | null): boolean => scale === null || scale.cap?.period === "month";
const countBefore = (of: Readonly<Record<string, CountOfContract>>): Count => {
  const all = Object.entries(of);
  const tiered = all.flatMap(([id, count]) =>
    count.scale === null ? [] : [{ id, count, scale: scaleOf(count.scale) }],
  );
  return {
    paid_minor: all.reduce((sum, [, { paid_minor, scale }]) => sum + (isCapped(scale) ? BigInt(paid_minor) : 0n), 0n),
    sold: Object.fromEntries(
      tiered.map(({ id, count, scale }) => [id, soldBefore(id, count, scale, tiered.length > 1)]),
    ),
  };
};

/**
 * The first format held only conversions and did not name its type; they have no cap and no volume.
 * Later, volumes had one kind, which the month's table names.
 */
const ofObject = (
  kept: Plain<Omit<EarnedSale, "units" | "units_back">> & Record<"units" | "units_back", any>,
): EarnedSale => {
  const both = (units: string): Volume => ({ value_minor: BigInt(units), sales_ppm: BigInt(units) });
  return {
    ...(kept as unknown as EarnedSale),
    is: "conversion",
    earned_minor: BigInt(kept.earned_minor),
    reversed_minor: BigInt(kept.reversed_minor),
    contract_segment: kept.contract_segment ?? null,
    counts_as: kept.counts_as ?? null,
    cap_period: kept.cap_period ?? null,
    units: kept.units == null ? null : both(kept.units),
    units_back: both(kept.units_back ?? "0"),
    table: null,
    won_held: BigInt(kept.won_held ?? 0),
    line: null,
  };
};

/** Throws on bytes in a newer format, because remembered money must never be guessed. */
export const decode = (bytes: Uint8Array): RememberedMoney => {
  const read = JSON.parse(decoder.decode(bytes));
  const isList = Array.isArray(read);
  const { format, ...kept } = isList ? { format: read[0] } : read;
  if (format !== FORMATS.objects && format !== FORMATS.compact)
    throw new Error(`a commission was remembered in format ${format}, and only 1 and 2 are known`);
  if (isList) return ofList(read);
  if (kept.is === "customer") return customerOf(format === FORMATS.objects ? { ...kept, is_of_device: true } : kept);
  if (kept.is === "customer_month") return customerMonthOf(kept);
  if (kept.is === "order") return orderOf(kept);
  if (kept.is !== "counts") return ofObject(kept);
  if (format === FORMATS.objects) return { is: "counts", ...countBefore(kept.of) };
  const sold = Object.entries<Plain<TierSales>>(kept.sold).map(([key, one]) => [key, soldOf(one)]);
  return { is: "counts", paid_minor: BigInt(kept.paid_minor), sold: Object.fromEntries(sold) };
};

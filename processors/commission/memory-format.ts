// What commission remembers, its types and its bytes, as they are written and as they once were.
import type { Cap, CapPeriod } from "../../domain/reference/reference.ts";
import type { UnixMs } from "../../stream/flow.ts";

export interface EarnedSale {
  readonly is: "conversion";
  /** The entry that a reversal names; null when nothing was earned, for `reason`. */
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
   * The contract's own segment: with the sale's time and type it names the counts that a refund
   * returns to.
   */
  readonly contract_segment: string | null;
  /**
   * The event type whose counts it went into; null: its own, as long as each type had its counts.
   */
  readonly counts_as: string | null;
  readonly cap_period: CapPeriod | null;
  /**
   * What the sale added to the volume of its month (tiered contracts), and what of that refunds
   * took out again.
   */
  readonly units: Volume | null;
  readonly units_back: Volume;
  /** Which part of the month's volume it belongs to; null: that of its contract, as it once was. */
  readonly table: string | null;
  /** Of a sale without `table`: what the month won by it while it is under review. */
  readonly won_held: bigint;
}
/** Tiers count money or sales; both are kept, so that a contract which counts the other goes on. */
export interface Volume {
  readonly value_minor: bigint;
  /** Millionths of a sale: one that was refunded in part counts in part. */
  readonly sales_ppm: bigint;
}
/**
 * How a tiered contract pays. Units are minor units of value, or millionths of a sale; prices are
 * minor units a million units.
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
  /** The first version with this table; null: not known, as it once was. */
  readonly contract_version: number | null;
  /** When the contract begins: earlier terms fill the lower part of a month. */
  readonly since: UnixMs;
  readonly scale: Scale;
  readonly units: Volume;
  /** What of the units is under review. */
  readonly held_units: Volume;
  /** What was paid for it, adjustments included, and what of that is held. */
  readonly paid_minor: bigint;
  readonly held_minor: bigint;
  readonly adjustments: number;
  /** Held by sales that were counted before `held_units` was: it leaves with their release. */
  readonly won_held: bigint;
  /** It began to count when each contract still counted alone, and goes on so. */
  readonly is_alone: boolean;
}
/** What was counted in one period, whatever contract it was sold under. */
export interface Count {
  /** Net of what was taken back: what a cap of this period is compared with. */
  readonly paid_minor: bigint;
  readonly sold: Readonly<Record<string, TierSales>>;
}
interface Counts extends Count {
  readonly is: "counts";
}
export interface Customer {
  readonly is: "customer";
  readonly since: UnixMs;
  /** Counted for a device when persons were not: the months of its person go on from it. */
  readonly is_of_device?: boolean;
}
export type RememberedMoney = EarnedSale | Counts | Customer;

/** Of both forms; 1 is only read. */
const FORMATS = { objects: 1, compact: 2 } as const;
const decoder = new TextDecoder();
type Plain<T> = { readonly [Field in keyof T]: any };

// JSON has no bigints, so they are digits. Written out by hand: every conversion comes by here, and
// a replacer or reviver is called for each field.
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

/** A list without names, for there is one a conversion and it is kept for good. */
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
  if (kept.units === null) return list;
  const wonHeld = kept.won_held === 0n ? [] : [kept.won_held.toString()];
  return [...list, plainVolume(kept.units), plainVolume(kept.units_back), kept.table, ...wonHeld];
};
const plainOf = (kept: RememberedMoney): object => {
  if (kept.is === "conversion") return listOf(kept);
  if (kept.is === "customer") return { format: FORMATS.compact, ...kept };
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
  const [segment, counts_as, cap_period, units, back, table, wonHeld] = rest;
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
    units: units === undefined ? null : volumeOf(units),
    units_back: back === undefined ? NO_VOLUME : volumeOf(back),
    table: table ?? null,
    won_held: BigInt(wonHeld ?? 0),
  };
};

/** As one contract counted for itself, whatever others counted in the same period. */
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
 * A cap of the month counts what was paid since there is one: tiers without it counted for
 * themselves.
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
 * Conversions came first and alone: what was written then does not say what it is, and belongs to
 * no cap and no volume. Volumes were of one kind; which one, the month's table says.
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
  };
};

/** Throws on bytes of a later form: money that was remembered is never guessed. */
export const decode = (bytes: Uint8Array): RememberedMoney => {
  const read = JSON.parse(decoder.decode(bytes));
  const isList = Array.isArray(read);
  const { format, ...kept } = isList ? { format: read[0] } : read;
  if (format !== FORMATS.objects && format !== FORMATS.compact)
    throw new Error(`a commission was remembered in format ${format}, and only 1 and 2 are known`);
  if (isList) return ofList(read);
  if (kept.is === "customer") return format === FORMATS.objects ? { ...kept, is_of_device: true } : kept;
  if (kept.is !== "counts") return ofObject(kept);
  if (format === FORMATS.objects) return { is: "counts", ...countBefore(kept.of) };
  const sold = Object.entries<Plain<TierSales>>(kept.sold).map(([key, one]) => [key, soldOf(one)]);
  return { is: "counts", paid_minor: BigInt(kept.paid_minor), sold: Object.fromEntries(sold) };
};

// The bytes of what commission remembers, as they are written and as they once were.

import type { Count, Earned, Kept, Scale, Sold, Volume } from "./earned.ts";

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
const plainSold = (sold: Sold) => ({
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
const listOf = (kept: Earned): readonly unknown[] => {
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
const plainOf = (kept: Kept): object => {
  if (kept.is === "conversion") return listOf(kept);
  if (kept.is === "customer") return { format: FORMATS.compact, ...kept };
  const sold = Object.fromEntries(Object.entries(kept.sold).map(([key, one]) => [key, plainSold(one)]));
  return { format: FORMATS.compact, ...kept, paid_minor: kept.paid_minor.toString(), sold };
};

export const encode = (kept: Kept): Uint8Array => Buffer.from(JSON.stringify(plainOf(kept)));

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
const soldOf = (sold: Plain<Sold>): Sold => ({
  ...(sold as Sold),
  scale: scaleOf(sold.scale),
  units: volumeOf(sold.units),
  held_units: volumeOf(sold.held_units),
  paid_minor: BigInt(sold.paid_minor),
  held_minor: BigInt(sold.held_minor),
  won_held: BigInt(sold.won_held ?? 0),
  is_alone: sold.is_alone ?? false,
});

const ofList = (list: readonly any[]): Earned => {
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
const soldBefore = (contractId: string, count: CountOfContract, scale: Scale, isAlone: boolean): Sold => {
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
const ofObject = (kept: Plain<Omit<Earned, "units" | "units_back">> & Record<"units" | "units_back", any>): Earned => {
  const both = (units: string): Volume => ({ value_minor: BigInt(units), sales_ppm: BigInt(units) });
  return {
    ...(kept as unknown as Earned),
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
export const decode = (bytes: Uint8Array): Kept => {
  const read = JSON.parse(decoder.decode(bytes));
  const isList = Array.isArray(read);
  const { format, ...kept } = isList ? { format: read[0] } : read;
  if (format !== FORMATS.objects && format !== FORMATS.compact)
    throw new Error(`a commission was remembered in format ${format}, and only 1 and 2 are known`);
  if (isList) return ofList(read);
  if (kept.is === "customer") return format === FORMATS.objects ? { ...kept, is_of_device: true } : kept;
  if (kept.is !== "counts") return ofObject(kept);
  if (format === FORMATS.objects) return { is: "counts", ...countBefore(kept.of) };
  const sold = Object.entries<Plain<Sold>>(kept.sold).map(([key, one]) => [key, soldOf(one)]);
  return { is: "counts", paid_minor: BigInt(kept.paid_minor), sold: Object.fromEntries(sold) };
};

// A month's volume, split by the tier tables under which it was sold: where each part lies, and how
// much of it is under review.

import type { Contract } from "../../domain/reference/reference.ts";
import type { Conversion } from "../../schemas/generated.ts";
import type { Place } from "./contract-types/tiered.ts";
import type { Count, Scale, TierSales, Volume } from "./memory-format.ts";
import { WHOLE_PPM } from "./worth.ts";

export const NO_VOLUME: Volume = { value_minor: 0n, sales_ppm: 0n };
export const plus = (a: Volume, b: Volume): Volume => ({
  value_minor: a.value_minor + b.value_minor,
  sales_ppm: a.sales_ppm + b.sales_ppm,
});
export const minus = (a: Volume, b: Volume): Volume => ({
  value_minor: a.value_minor - b.value_minor,
  sales_ppm: a.sales_ppm - b.sales_ppm,
});
/** The volume that a sale adds. */
export const volumeOf = ({ line_value_minor }: Conversion): Volume => ({
  value_minor: line_value_minor,
  sales_ppm: WHOLE_PPM,
});
/** The number of units in the kind that a table counts. */
export const ownKind = ({ value_minor, sales_ppm }: Volume, { per }: Scale): bigint =>
  per === "value" ? value_minor : sales_ppm;

const isSameCap = (a: Scale["cap"], b: Scale["cap"]): boolean =>
  a?.period === b?.period && a?.amount_minor === b?.amount_minor;
const isSame = (a: Scale, b: Scale): boolean =>
  a.mode === b.mode &&
  a.per === b.per &&
  a.currency === b.currency &&
  isSameCap(a.cap, b.cap) &&
  a.steps.length === b.steps.length &&
  a.steps.every(({ from, price }, n) => from === b.steps[n]!.from && price === b.steps[n]!.price);

/**
 * Finds the part of the month for sales under this contract. A contract version with unchanged
 * terms continues the same part.
 */
export const tableOf = (
  { sold }: Count,
  { contract_id, version, effective_from }: Contract,
  scale: Scale,
): { readonly table: string; readonly part: TierSales } => {
  const known = Object.entries(sold).find(([, part]) => part.contract_id === contract_id && isSame(part.scale, scale));
  if (known !== undefined) return { table: known[0], part: known[1] };
  return {
    table: `${contract_id}.${version}`,
    part: {
      contract_id,
      contract_version: version,
      since: effective_from,
      scale,
      units: NO_VOLUME,
      held_units: NO_VOLUME,
      paid_minor: 0n,
      held_minor: 0n,
      adjustments: 0,
      won_held: 0n,
      is_alone: false,
    },
  };
};

/**
 * The parts ordered by their terms, earlier terms first. They fill the lower part of the month in
 * any order of events.
 */
export const inOrder = ({ sold }: Count): readonly (readonly [string, TierSales])[] =>
  Object.entries(sold).toSorted(
    ([, a], [, b]) =>
      a.since - b.since || a.contract_id - b.contract_id || (a.contract_version ?? 0) - (b.contract_version ?? 0),
  );

/**
 * Locates a table's part in the month. `unitsOf` selects all units or only those that are not under
 * review.
 */
export const placeIn = (
  month: Count,
  table: string,
  unitsOf: (part: TierSales) => Volume = (part) => part.units,
): Place => {
  const { scale, is_alone } = month.sold[table]!;
  const own = ownKind(unitsOf(month.sold[table]!), scale);
  if (is_alone) return { below: 0n, own, month: own };
  let below = 0n;
  let all = 0n;
  let isBelow = true;
  for (const [key, part] of inOrder(month)) {
    if (key === table) isBelow = false;
    if (part.is_alone) continue;
    const units = ownKind(unitsOf(part), scale);
    all += units;
    if (isBelow) below += units;
  }
  return { below, own, month: all };
};
export const withoutReviews = (part: TierSales): Volume => minus(part.units, part.held_units);

// Judges the day's counts of each partner: detects a flood of clicks, or conversions spread more
// evenly than those of real people.

import type { NightlyThresholds } from "../../../domain/reference/thresholds.ts";
import type { FraudReason } from "../../../schemas/generated.ts";
import { flatnessOf, spans } from "./flatness.ts";

/** The counts of one partner at one client. */
export interface PartnerCounts {
  readonly partner_id: number;
  /** Clicks of the day. */
  readonly clicks: number;
  /** Conversions of the day that were credited by a click. */
  readonly conversions: number;
  /** Conversions of the seven days that end with this day, by full hours since their click. */
  readonly byHour: ReadonlyMap<number, number>;
}

/**
 * A reason that applies to every conversion of the day that was credited to the partner by a click
 * within these hours before it.
 */
export interface Finding {
  readonly partner_id: number;
  readonly reason: FraudReason;
  /** Hours from click to conversion; a flood covers all of them. */
  readonly from: number;
  readonly to: number;
}

/**
 * Weights out of 100: a flood alone reaches a new client's review threshold, both findings together
 * its reject threshold.
 */
const FLOOD_WEIGHT = 40;
const FLAT_WEIGHT = 30;
const MILLION = 1_000_000;

const floodOf = (
  { partner_id, clicks, conversions }: PartnerCounts,
  { flood_clicks, flood_conversions_ppm }: NightlyThresholds,
) =>
  clicks > flood_clicks && conversions * MILLION < flood_conversions_ppm * clicks
    ? [
        {
          partner_id,
          reason: {
            code: "click_flood",
            weight: FLOOD_WEIGHT,
            evidence: `${clicks} clicks in a day, ${conversions} conversions`,
          },
          from: 0,
          to: Number.POSITIVE_INFINITY,
        },
      ]
    : [];

/** Both spans use one code: a conversion lies in one of them, and a score counts a code once. */
const flatOf = ({ partner_id, byHour }: PartnerCounts, { flat_sample, flat_distance }: NightlyThresholds) =>
  spans.flatMap((span) => {
    const { sample, distance } = flatnessOf(byHour, span);
    if (sample < flat_sample || distance > flat_distance) return [];
    const evidence =
      `${sample} conversions in ${span.name} after the click, ${distance.toFixed(3)} from an even ` + "spread";
    return [
      {
        partner_id,
        reason: { code: "flat_distribution", weight: FLAT_WEIGHT, evidence },
        from: span.from,
        to: span.to,
      },
    ];
  });

/** Sorted by partner, floods first. The same counts always give the same findings. */
export const findingsOf = (partners: readonly PartnerCounts[], thresholds: NightlyThresholds): readonly Finding[] =>
  [...partners]
    .sort((a, b) => a.partner_id - b.partner_id)
    .flatMap((one) => [...floodOf(one, thresholds), ...flatOf(one, thresholds)]);

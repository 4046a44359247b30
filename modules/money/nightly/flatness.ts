// How far the times from click to conversion are from being spread evenly.

/** Hours from click to conversion: from `from` up to, not including, `to`. */
export interface Span {
  readonly name: string;
  readonly from: number;
  readonly to: number;
}

/**
 * Where flooding shows: made-up clicks precede conversions by any time at all, so between hours 2
 * and 24 and between days 2 and 7 as many come late as early, while people convert soon or never
 * (docs/fraud.md).
 */
export const spans: readonly Span[] = [
  { name: "hours 2 to 24", from: 2, to: 24 },
  { name: "days 2 to 7", from: 24, to: 168 },
];

export interface Flatness {
  /** Conversions inside of the span. */
  readonly sample: number;
  /**
   * The Kolmogorov-Smirnov distance: the largest difference between the share that came so far and
   * the share of the span that has passed.
   */
  readonly distance: number;
}

/**
 * `byHour[h]`: conversions from hour h up to hour h + 1 after their click. Compared at every full
 * hour.
 */
export const flatnessOf = (byHour: ReadonlyMap<number, number>, { from, to }: Span): Flatness => {
  let sample = 0;
  for (let hour = from; hour < to; hour += 1) sample += byHour.get(hour) ?? 0;
  if (sample === 0) return { sample, distance: 1 };
  let distance = 0;
  let soFar = 0;
  for (let hour = from; hour < to; hour += 1) {
    soFar += byHour.get(hour) ?? 0;
    distance = Math.max(distance, Math.abs(soFar / sample - (hour + 1 - from) / (to - from)));
  }
  return { sample, distance };
};

// Measures how far the times from click to conversion are from being spread evenly.

/** Hours from click to conversion: [from, to). */
export interface Span {
  readonly name: string;
  readonly from: number;
  readonly to: number;
}

/**
 * The spans in which flooding shows. Fabricated clicks precede conversions by any length of time,
 * so that between hours 2 and 24 and between days 2 and 7 as many conversions come late as early.
 * People convert soon or never (docs/fraud.md).
 */
export const spans: readonly Span[] = [
  { name: "hours 2 to 24", from: 2, to: 24 },
  { name: "days 2 to 7", from: 24, to: 168 },
];

export interface Flatness {
  /** Conversions inside the span. */
  readonly sample: number;
  /**
   * The Kolmogorov-Smirnov distance: the largest difference between the share of conversions so far
   * and the share of the span that has passed.
   */
  readonly distance: number;
}

/**
 * `byHour[h]`: conversions from hour h (inclusive) to hour h + 1 (exclusive) after their click. The
 * distance is evaluated at every full hour.
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

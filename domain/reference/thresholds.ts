// The client's settings of the nightly pass and what a new client starts with.

/** From which numbers on a day, or a distribution, is a finding. */
export interface NightlyThresholds {
  /** A partner with more clicks than this in a day ... */
  readonly flood_clicks: number;
  /** ... of which fewer than this in a million convert, floods. */
  readonly flood_conversions_ppm: number;
  /** Fewer conversions than this say nothing about a distribution. */
  readonly flat_sample: number;
  /** The largest distance from a uniform distribution that still counts as flat: 0 to 1. */
  readonly flat_distance: number;
}

/**
 * More than 10,000 clicks a day of which fewer than 0.01 % convert: ours. At 100 conversions 95 of
 * 100 uniform samples come closer than 1.36 / sqrt(100) = 0.136 to the uniform distribution
 * (Smirnov, "Table for estimating the goodness of fit of empirical distributions", 1948); people
 * who buy soon after a click, their chances falling like 1 / time, are 0.29 away from it over hours
 * 2 to 24, and 0.23 over days 2 to 7.
 */
export const nightlyDefaults: NightlyThresholds = {
  flood_clicks: 10_000,
  flood_conversions_ppm: 100,
  flat_sample: 100,
  flat_distance: 0.15,
};

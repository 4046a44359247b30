// The client's settings of the nightly fraud pass, and their defaults.

/** The limits from which a day or a distribution becomes a finding. */
export interface NightlyThresholds {
  /** A partner floods if it has more clicks than this in a day, ... */
  readonly flood_clicks: number;
  /** ... and fewer conversions than this for each million clicks. */
  readonly flood_conversions_ppm: number;
  /** A distribution of fewer conversions than this is not judged. */
  readonly flat_sample: number;
  /** The largest distance from a uniform distribution that still counts as flat, from 0 to 1. */
  readonly flat_distance: number;
}

/**
 * The flood limits are our own: more than 10,000 clicks a day of which fewer than 0.01 % convert.
 * The flat limit: with 100 conversions, 95 of 100 uniform samples are closer than 1.36 / sqrt(100)
 * = 0.136 to the uniform distribution (Smirnov, "Table for estimating the goodness of fit of
 * empirical distributions", 1948). People who buy soon after a click, with a chance that falls like
 * 1 / time, are 0.29 away from it over hours 2 to 24, and 0.23 over days 2 to 7.
 */
export const nightlyDefaults: NightlyThresholds = {
  flood_clicks: 10_000,
  flood_conversions_ppm: 100,
  flat_sample: 100,
  flat_distance: 0.15,
};

// Limits for each second or minute in this process alone, for requests that may not wait for a
// store.

type Clock = () => number;
const monotonic: Clock = () => performance.now();

/**
 * `take` returns whether one more request of the key fits into this span of time. The counts are
 * dropped with the span, so there are no more keys than requests in it.
 */
const perSpan = (ms: number, limit: number, now: Clock) => {
  let counts = new Map<string, number>();
  let span = Number.NEGATIVE_INFINITY;
  return {
    take: (key: string): boolean => {
      const is = Math.floor(now() / ms);
      if (is !== span) {
        span = is;
        counts = new Map();
      }
      const count = (counts.get(key) ?? 0) + 1;
      if (count <= limit) counts.set(key, count);
      return count <= limit;
    },
  };
};

export const perSecond = (limit: number, now: Clock = monotonic) => perSpan(1_000, limit, now);
export const perMinute = (limit: number, now: Clock = monotonic) => perSpan(60_000, limit, now);

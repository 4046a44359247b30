// A limit for each second in this process alone, for requests that may not wait for a store.

/**
 * `take` returns whether one more request of the key fits into this second. The counts are dropped
 * with the second, so there are no more keys than requests in it.
 */
export const perSecond = (limit: number, now: () => number = performance.now.bind(performance)) => {
  let counts = new Map<string, number>();
  let second = Number.NEGATIVE_INFINITY;
  return {
    take: (key: string): boolean => {
      const is = Math.floor(now() / 1_000);
      if (is !== second) {
        second = is;
        counts = new Map();
      }
      const count = (counts.get(key) ?? 0) + 1;
      if (count <= limit) counts.set(key, count);
      return count <= limit;
    },
  };
};

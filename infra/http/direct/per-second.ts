// A limit a second in this process alone: what may not wait for a store asks it.

/**
 * `take` answers whether one more of the key fits into this second. What is counted is forgotten
 * with the second, so the keys are no more than the requests of one.
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

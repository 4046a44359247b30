// How much parsed JSON is held at once: bodies wait their turn instead of filling the heap
// together.

/**
 * One ordinary batch of ten thousand events, and smaller ones beside it. What is parsed together
 * lives together, and is copied together by the collector:
 * three at once cost 15 % more than one after the other. The wait for the log is not in it.
 */
const CAPACITY_BYTES = 50_000_000;

/** A fifth of the lane is for the small: a twentieth of it at most, a thousand ordinary events. */
const SMALL = { share: 1 / 5, most: 1 / 20 };

/**
 * Runs works in the order of their coming, those of several owners in turn, as many at once as fit;
 * one that is larger than the lane runs alone. Small ones do not wait for large ones: they have a
 * part of the lane to themselves.
 */
export const openLane = (capacity = CAPACITY_BYTES) => {
  const large = openQueue(capacity * (1 - SMALL.share));
  const small = openQueue(capacity * SMALL.share);
  return <T>(owner: string, weight: number, work: () => Promise<T>): Promise<T> =>
    (weight <= capacity * SMALL.most ? small : large)(owner, weight, work);
};

interface QueueEntry {
  readonly weight: number;
  readonly start: () => void;
}

const openQueue = (capacity: number) => {
  /** Whose turn it is stands first. */
  const waiting = new Map<string, QueueEntry[]>();
  let running = 0;
  const fits = (weight: number): boolean => running === 0 || running + weight <= capacity;
  const next = (): void => {
    for (const [owner, works] of waiting) {
      const { weight, start } = works[0]!;
      if (!fits(weight)) return;
      works.shift();
      waiting.delete(owner);
      if (works.length > 0) waiting.set(owner, works);
      running += weight;
      start();
    }
  };
  return async <T>(owner: string, weight: number, work: () => Promise<T>): Promise<T> => {
    if (waiting.size === 0 && fits(weight)) running += weight;
    else
      await new Promise<void>((start) => {
        waiting.set(owner, [...(waiting.get(owner) ?? []), { weight, start }]);
        next();
      });
    try {
      return await work();
    } finally {
      running -= weight;
      next();
    }
  };
};

// Bounds how much parsed JSON is held at once: bodies wait for their turn instead of filling the
// heap together.

/**
 * One ordinary batch of ten thousand events, and smaller ones beside it. Objects that are parsed
 * together live together, and the collector copies them together: three bodies at once cost 15 %
 * more than one after the other. The wait for the log is outside of it.
 */
const CAPACITY_BYTES = 50_000_000;

/**
 * A fifth of the lane is for small bodies: a twentieth of it at most, or a thousand ordinary
 * events.
 */
const SMALL = { share: 1 / 5, most: 1 / 20 };

/**
 * Runs works in their order of arrival, and several owners in turn, as many at once as fit. A work
 * that is larger than the lane runs alone. Small works do not wait for large ones: they have a part
 * of the lane to themselves.
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
  /** The owner whose turn it is comes first. */
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

// Random numbers from a seed, and the times and amounts around which histories are drawn.

export const HOUR = 3_600_000;
export const DAY = 24 * HOUR;
/** July 2026 begins in Mexico City. */
export const border = Date.UTC(2026, 6, 1, 6);
export const longAgo = Date.UTC(2026, 0, 1, 6);

/** Mulberry32: the same seed gives the same numbers on every machine. */
export const randomOf = (seed: number) => {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
  const below = (n: number): number => Math.floor(next() * n);
  return {
    below,
    chance: (share: number): boolean => next() < share,
    pick: <T>(...all: readonly T[]): T => all[below(all.length)]!,
  };
};
export type Random = ReturnType<typeof randomOf>;

export const centsOf = ({ below }: Random, most: number): bigint => BigInt(1 + below(most));

// Measures how long the event loop was blocked, in CPU time of this thread, so that other processes
// of the machine do not count.
import { readFileSync } from "node:fs";

const threadMs = (): number => {
  try {
    return Number(readFileSync("/proc/thread-self/schedstat", "utf8").split(" ")[0]) / 1_000_000;
  } catch {
    return performance.now();
  }
};

/**
 * The longest turn of the loop in ms while `work` runs. `work` must yield to the loop by itself.
 */
export const longestBlock = async (work: () => Promise<unknown>): Promise<number> => {
  let last = threadMs();
  let longest = 0;
  let isDone = false;
  const look = (): void => {
    const now = threadMs();
    longest = Math.max(longest, now - last);
    last = now;
  };
  const turn = (): void => {
    look();
    if (!isDone) setImmediate(turn);
  };
  setImmediate(turn);
  try {
    await work();
  } finally {
    isDone = true;
    look();
  }
  return longest;
};

// Waits for a condition instead of for a time.
import { setTimeout as sleep } from "node:timers/promises";

// Short enough not to delay a server that needs 30 ms, and long enough to cost little compared with
// a starting broker.
const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 200;

/**
 * Asks until the answer is not an error, and returns it. @throws Error when the deadline passes,
 * with the condition and the last problem; at once when `signal` is aborted, with its reason. If
 * `worksOn` says at the deadline that there was progress since, there is as much time once more.
 */
export async function until<T>(
  what: string,
  deadlineMs: number,
  ask: () => T | Promise<T>,
  signal?: AbortSignal,
  worksOn: () => boolean = () => false,
): Promise<T> {
  const began = performance.now();
  let end = began + deadlineMs;
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 1.5, LONGEST_PAUSE_MS)) {
    signal?.throwIfAborted();
    try {
      return await ask();
    } catch (error) {
      const isOver = performance.now() + pause > end;
      if (isOver && worksOn()) end += deadlineMs;
      else if (isOver)
        throw new Error(
          `Waited ${Math.round((performance.now() - began) / 1000)} s in vain until ${what}: ` +
            `${error instanceof Error ? error.message : error}`,
          { cause: error },
        );
    }
    await sleep(pause);
  }
}

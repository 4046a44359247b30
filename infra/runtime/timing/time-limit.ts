// Limits how long an answer is waited for.

const TURNS = 10;
/** Every timer may be so late. */
const LATE_MS = 100;
/** A loop that is late at each turn gets a tenth of a core: what is silent for longer is lost. */
const MOST_TIMES = 10;

/**
 * Calls `over` after `ms` in which the loop turned; clear the timer when the answer comes. Turns of
 * a timer are counted and not the clock, and none that is late: while the loop was blocked, or had
 * no processor, requests were not sent and answers lay in their sockets. Even so it ends after ten
 * times `ms`. The sockets are read once more before `over`, which must do nothing if the answer was
 * there.
 */
export const timeLimit = (ms: number, over: () => void): NodeJS.Timeout => {
  const turnMs = ms / TURNS;
  const end = performance.now() + MOST_TIMES * ms;
  let turns = 0;
  let due = performance.now() + turnMs;
  const timer = setTimeout(() => {
    const now = performance.now();
    if (now - due <= Math.max(LATE_MS, turnMs / 2)) turns += 1;
    if (turns === TURNS || now >= end) return void setImmediate(over);
    due = now + turnMs;
    timer.refresh();
  }, turnMs);
  return timer;
};

/**
 * Settles like `work`; after `ms` rejects with `late`. The work itself does not end then, and its
 * later result is ignored. Time in which the loop was blocked does not count.
 */
export const within = async <T>(ms: number, work: Promise<T>, late: string): Promise<T> => {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = timeLimit(ms, () => reject(new Error(late)));
  });
  // It may fail after the limit, when no caller waits for it.
  work.catch(() => undefined);
  try {
    return await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
  }
};

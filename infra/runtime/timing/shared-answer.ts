// Shares an answer among callers for a short time.

/**
 * Concurrent callers share one answer, and callers within `ms` after it was asked for the last one.
 * The age is that of the clock: a monotonic one stands still while the machine sleeps, and the
 * first caller after it would get an answer from before. A clock that was set back asks again.
 */
export const sharedAnswer = <T>(ms: number, ask: () => Promise<T>): (() => Promise<T>) => {
  let latest: { readonly at: number; readonly answer: Promise<T> } | undefined;
  return () => {
    const now = Date.now();
    if (latest === undefined || Math.abs(now - latest.at) > ms) latest = { at: now, answer: ask() };
    return latest.answer;
  };
};

// Retries one step while its error is transient, with full jitter and a deadline.
import { classify } from "../errors.ts";

/**
 * The outside world of retrying; tests bring their own. `now` is monotonic milliseconds, `random`
 * is in [0, 1).
 */
export interface Clock {
  readonly now: () => number;
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  readonly random: () => number;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const end = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", end);
        signal?.aborted ? reject(signal.reason) : resolve();
      };
      const timer = setTimeout(end, ms);
      signal?.addEventListener("abort", end);
    }),
  random: Math.random,
};

export interface RetrySettings {
  /** No try begins later than this after the first one. */
  readonly deadlineMs: number;
  /**
   * The n-th wait is random in [0, min(maxMs, firstMs * 2^n)): full jitter spreads callers that
   * failed together.
   */
  readonly firstMs?: number;
  readonly maxMs?: number;
  readonly isTransient?: (error: unknown) => boolean;
  /**
   * Called before each wait, e.g. to heartbeat or to log; an error that it throws ends the
   * retrying.
   */
  readonly beforeWait?: (error: unknown, tries: number) => Promise<void> | void;
  readonly signal?: AbortSignal;
  readonly clock?: Clock;
}

/**
 * Resolves with the first success. Rejects with the step's own last error: at once if it is not
 * transient, else when the next wait would end after the deadline or the signal has fired. Wrap one
 * step, never a sequence, whose finished parts would be done twice.
 */
export const retry = async <T>(step: (tries: number) => Promise<T>, settings: RetrySettings): Promise<T> => {
  const { deadlineMs, firstMs = 50, maxMs = 2_000, signal, clock = systemClock } = settings;
  const isTransient = settings.isTransient ?? ((error: unknown) => classify(error) === "transient");
  const end = clock.now() + deadlineMs;
  for (let tries = 1; ; tries++) {
    try {
      return await step(tries);
    } catch (error) {
      if (!isTransient(error) || signal?.aborted) throw error;
      const waitMs = clock.random() * Math.min(maxMs, firstMs * 2 ** (tries - 1));
      if (clock.now() + waitMs > end) throw error;
      await settings.beforeWait?.(error, tries);
      try {
        await clock.sleep(waitMs, signal);
      } catch {
        throw error;
      }
    }
  }
};

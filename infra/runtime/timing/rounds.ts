// Repeats a small piece of work at fixed times, such as setting a gauge, one round at a time.
import type { Resource } from "../scope.ts";

export interface RoundSettings {
  readonly everyMs: number;
  /** The round must end by itself, even if a store hangs. */
  readonly round: () => Promise<void>;
  /** Called with the first failure of an outage. */
  readonly onFailure: (error: unknown) => void;
}

/**
 * A tick that finds a round under way is skipped: rounds never queue, however long one takes.
 * `stop` does not wait for the round under way, because nothing depends on its result.
 */
export const openRounds = ({ everyMs, round, onFailure }: RoundSettings): Resource<null> => {
  let isUnderWay = false;
  let isStopped = false;
  let hasFailed = false;
  const tick = async (): Promise<void> => {
    if (isUnderWay) return;
    isUnderWay = true;
    try {
      await round();
      hasFailed = false;
    } catch (error) {
      if (!hasFailed && !isStopped) onFailure(error);
      hasFailed = true;
    }
    isUnderWay = false;
  };
  const timer = setInterval(() => void tick(), everyMs);
  return {
    value: null,
    stop: () => {
      isStopped = true;
      clearInterval(timer);
    },
  };
};

// A deadline for the work on a batch: it must go on, however long it takes as a whole.

/** The work on a batch waits for something that never answers. */
class NoProgress extends Error {
  constructor(place: string, ms: number, last: string) {
    super(`${place}: no progress for ${Math.round(ms / 1_000)} s, last was ${last}`);
    this.name = "NoProgress";
  }
}

export interface Progress {
  /**
   * Runs a step of the work. While it runs nothing is counted, because it has a deadline of its
   * own; once it is done, the work has gone on.
   */
  readonly during: (what: string, step: () => Promise<void>) => Promise<void>;
  /** Rejects with NoProgress. */
  readonly stuck: Promise<never>;
  readonly end: () => void;
}

const TURNS = 10;

/**
 * Watches the work on the batch of `place`. Turns of a timer are counted and not the clock: a loop
 * that was blocked, or had no processor, is slow and not stuck.
 */
export const watchProgress = (place: string, limitMs: number): Progress => {
  let [turns, underWay, last] = [0, 0, "its beginning"];
  let reject: (error: NoProgress) => void = () => undefined;
  const stuck = new Promise<never>((_, end) => {
    reject = end;
  });
  const timer = setInterval(() => {
    if (underWay === 0) turns += 1;
    if (turns > TURNS) reject(new NoProgress(place, limitMs, last));
  }, limitMs / TURNS).unref();
  return {
    during: async (what, step) => {
      underWay += 1;
      try {
        await step();
        [turns, last] = [0, what];
      } finally {
        underWay -= 1;
      }
    },
    stuck,
    end: () => clearInterval(timer),
  };
};

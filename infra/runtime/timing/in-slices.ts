// Runs long work in slices, so that the event loop serves other requests between them.

/** Another request needs about five turns of the loop. */
const SLICE_MS = 10;

/**
 * Works that wait for a turn, in the order of their calls: one continues in each turn of the loop.
 */
const waiting: (() => void)[] = [];

const goOn = (): void => {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(goOn);
};

/**
 * Resolves in a later turn of the loop, in which no other work continues that waits here: however
 * many long works there are, a turn has a slice of only one of them.
 */
const nextTurn = (): Promise<void> =>
  new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(goOn);
  });

/** Waits for the next turn when the slice since the last one is over. */
export const openSlices = (now: () => number = performance.now.bind(performance)) => {
  let began = now();
  return {
    isOver: (): boolean => now() - began >= SLICE_MS,
    next: async (): Promise<void> => {
      await nextTurn();
      began = now();
    },
  };
};

/**
 * Runs the steps to their end. Other work gets its turn after the first step that ends 10 ms later.
 */
export const inSlices = async <T>(steps: Iterator<void, T>, now?: () => number): Promise<T> => {
  const slices = openSlices(now);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    if (slices.isOver()) await slices.next();
  }
};

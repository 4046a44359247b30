// Long work in pieces: the event loop serves others between them.
import { setImmediate } from "node:timers/promises";

/** Another request meets about five turns of the loop on its way. */
const SLICE_MS = 10;

/** Runs the steps to their end. Others have their turn after the first step that ends 10 ms on. */
export const inSlices = async <T>(steps: Iterator<void, T>, now = performance.now.bind(performance)): Promise<T> => {
  for (let began = now(); ; ) {
    const step = steps.next();
    if (step.done === true) return step.value;
    if (now() - began < SLICE_MS) continue;
    await setImmediate();
    began = now();
  }
};

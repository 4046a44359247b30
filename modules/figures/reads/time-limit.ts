// The time limit for reading figures, and the error when it passes.
import { Unavailable } from "../../../infra/runtime/errors.ts";

/** The longest wait for figures. After it the reader gets an error instead of a partial answer. */
export const FIGURES_MS = 2_000;

/** The answer of the analytics store. Throws Unavailable in place of a partial sum. */
export const orAway = <T>(work: Promise<T>): Promise<T> =>
  work.catch(() => {
    throw new Unavailable("the figures cannot be read now", 2);
  });

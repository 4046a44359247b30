// The time limit for reading figures, and the error when it passes.
import { orUnavailable } from "../../../infra/runtime/errors.ts";

/** The longest wait for figures. After it the reader gets an error instead of a partial answer. */
export const FIGURES_MS = 2_000;

/** Figures are not there after any error, of which the end of the time limit is one. */
export const figuresAway = (message: string) => orUnavailable(message, 2, () => true);

/** The answer of the analytics store. Throws Unavailable in place of a partial sum. */
export const orAway = <T>(work: Promise<T>): Promise<T> => work.catch(figuresAway("the figures cannot be read now"));

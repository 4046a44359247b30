// How long figures are waited for, and what is thrown when they do not come.
import { Unavailable } from "../../../infra/runtime/errors.ts";

/** A screen waits no longer than this; then it gets no answer rather than a part of one. */
export const FIGURES_MS = 2_000;

/** The answer of the analytics store. Throws Unavailable in place of a partial sum. */
export const orAway = <T>(work: Promise<T>): Promise<T> =>
  work.catch(() => {
    throw new Unavailable("the figures cannot be read now", 2);
  });

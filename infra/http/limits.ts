// Takes a place in a rate limit for a request, and says in its headers how many are left.
import type { Response } from "express";
import { Problem } from "./problem.ts";
import type { Verdict } from "./rate-limit.ts";

/** The headers with the limit of the sender, on every answer. */
export const limitHeaders = ({ remaining, resetMs }: Verdict, limit: number) => ({
  "RateLimit-Policy": `"default";q=${limit};w=60`,
  RateLimit: `"default";r=${remaining};t=${Math.ceil(resetMs / 1_000)}`,
});

/** Throws Problem 429 with Retry-After from 1 to 5 seconds; `detail` says what the limit is. */
export const expectPlace = ({ isAllowed, resetMs }: Verdict, detail: string): void => {
  if (isAllowed) return;
  const retryAfter = Math.min(5, Math.max(1, Math.ceil(resetMs / 1_000)));
  throw new Problem("rate_limited", detail, { headers: { "Retry-After": String(retryAfter) } });
};

/** Sets the headers and takes the place, for an answer of Express. */
export const takePlace = (verdict: Verdict, limit: number, response: Response, detail: string): void => {
  response.set(limitHeaders(verdict, limit));
  expectPlace(verdict, detail);
};

// Takes a place in a rate limit for a request, and says in its headers how many are left.
import type { Response } from "express";
import { Problem } from "./problem.ts";
import type { Verdict } from "./rate-limit.ts";

/** Throws Problem 429 with Retry-After from 1 to 5 seconds; `detail` says what the limit is. */
export const takePlace = (verdict: Verdict, limit: number, response: Response, detail: string): void => {
  response.set("RateLimit-Policy", `"default";q=${limit};w=60`);
  response.set("RateLimit", `"default";r=${verdict.remaining};t=${Math.ceil(verdict.resetMs / 1_000)}`);
  if (verdict.isAllowed) return;
  const retryAfter = Math.min(5, Math.max(1, Math.ceil(verdict.resetMs / 1_000)));
  throw new Problem("rate_limited", detail, { headers: { "Retry-After": String(retryAfter) } });
};

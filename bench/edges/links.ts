// Measures how many visitors of tracking links one process redirects a second.
import { measure } from "./visited.ts";

/** `--seconds` a run (20). */
export const run = (options: { seconds?: string }): Promise<void> =>
  measure("links", () => ({ path: "/c/verde-jardin", eventsOf: null }), options);

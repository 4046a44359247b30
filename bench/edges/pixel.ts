// Measures how many requests of one event a pixel process answers a second, each from another
// device.
import { measure } from "./visited.ts";

/** `--seconds` a run (20). */
export const run = (options: { seconds?: string }): Promise<void> =>
  measure("pixel", ({ clientId }) => ({ path: "/e", eventsOf: clientId }), options);

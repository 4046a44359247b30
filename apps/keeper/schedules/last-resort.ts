// Sends to the log what dead edges have left in object storage.

import type { Objects } from "../../../infra/objects/objects.ts";
import type { Schedule } from "../../../infra/runtime/timing/schedule.ts";
import { drainAbandoned, lastResortHeld } from "../../../infra/spool/last-resort.ts";
import type { Send } from "../../../infra/spool/sending.ts";

/**
 * A living edge sends its own events within seconds of the log's return, in order with its spool.
 * One that has not done so after this time is dead.
 */
const ABANDONED_MS = 15 * 60_000;

/**
 * Any number of keepers may run it at once, because events that are sent twice have the same ids.
 */
export const lastResort = (objects: Objects, send: Send): Schedule => ({
  name: "last-resort",
  pauseMs: 60_000,
  work: (isClosing) => drainAbandoned(objects, send, { ageMs: ABANDONED_MS, isClosing }),
  waiting: async () => {
    const { byLabel, oldestAt } = await lastResortHeld(objects);
    return {
      count: Object.values(byLabel).reduce((sum, count) => sum + count, 0),
      seconds: oldestAt === undefined ? 0 : Math.max(0, (Date.now() - oldestAt) / 1_000),
    };
  },
});

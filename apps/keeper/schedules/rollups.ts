// The schedule that computes rollups for marked minutes until none of its turn waits.
import type { Pool } from "pg";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import type { Schedule } from "../../../infra/runtime/timing/schedule.ts";
import { hoursOf } from "../../../modules/rollups/hours.ts";
import { markOutdated, type Searched } from "../../../modules/rollups/outdated.ts";
import { takeMarks, waitingMarks } from "../../../modules/rollups/rollup-marks.ts";
import { computeRollups } from "../../../modules/rollups/rollups.ts";
import { markWithdrawn } from "../../../modules/rollups/withdrawn.ts";

/**
 * 50 hours of 60 minutes are 3,000 marks, about 100 KB of statement; more in one would hold the
 * memory of more hours at once.
 */
const HOURS_AT_ONCE = 50;
/** Devices that chose again, in one look at the events of their clients: 64 KB of ids. */
const DEVICES_AT_ONCE = 1_000;

export const rollups = (pool: Pool, clickhouse: Clickhouse): Schedule => {
  let searched: Searched | null = "from the newest";
  return {
    name: "rollups",
    pauseMs: 1_000,
    // A minute of a busy client is touched every second, and costs the reading of its hour each
    // time (bench/rollups.ts): a tenth of the time at most.
    rest: 9,
    work: async (isClosing) => {
      let done = 0;
      await markWithdrawn(pool, clickhouse, DEVICES_AT_ONCE);
      for (;;) {
        let hours = 0;
        const taken = await takeMarks(pool, HOURS_AT_ONCE, async (marks) => {
          hours = hoursOf(marks).length;
          await computeRollups(clickhouse, marks);
        });
        if (taken === "busy") return "busy";
        done += taken;
        if (hours < HOURS_AT_ONCE || isClosing()) break;
      }
      // What was stored comes first; an update fills the hours of before in its shadow.
      if (searched !== null) searched = await markOutdated(pool, clickhouse, searched, HOURS_AT_ONCE);
      return done;
    },
    waiting: () => waitingMarks(pool),
  };
};

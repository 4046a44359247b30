// The schedules that compute rollups until no mark waits: those of minutes, and those that only
// whole hours can give.
import type { Pool } from "pg";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { LONGEST_REST_MS, type Schedule, SILENT_MS } from "../../../infra/runtime/timing/schedule.ts";
import { type HourOf, hoursOf } from "../../../modules/figures/rollups/hours.ts";
import { markOutdated, type SearchStart } from "../../../modules/figures/rollups/outdated-hours.ts";
import {
  type RollupHour,
  takeHours,
  takeMarks,
  waitingHours,
  waitingMarks,
} from "../../../modules/figures/rollups/rollup-marks.ts";
import { eventsOf } from "../../../modules/figures/rollups/rollup-reads.ts";
import { computeHours, computeMinutes } from "../../../modules/figures/rollups/rollups.ts";
import { markWithdrawn } from "../../../modules/figures/rollups/withdrawn-devices.ts";

/**
 * 50 hours of 60 minutes are 3,000 marks and about 100 KB of statement. A larger statement would
 * hold the memory of more hours at once.
 */
const HOURS_AT_ONCE = 50;
/** Devices whose consent has changed, in one search of their clients' events: 64 KB of ids. */
const DEVICES_AT_ONCE = 1_000;

/**
 * Devices send events late, so ten minutes are touched at any moment. For a client with a million
 * events a minute, a turn reads ten million, which takes about 3 s. Twice the rest halves that
 * cost, and rollups still show within the minute (law L1).
 */
const BUSY_HOUR_EVENTS = 1_000_000;
const BUSY_REST_MS = 40_000;

export const rollups = (pool: Pool, clickhouse: Clickhouse): Schedule => {
  let searched: SearchStart | null = "from the newest";
  let isBusy = false;
  return {
    name: "rollups",
    pauseMs: 1_000,
    // A minute of a busy client is touched every second, and each time the minutes around it are
    // read again (bench/rollups.ts). A rest of 19 leaves a twentieth of the time for it.
    rest: 19,
    longestRestMs: () => (isBusy ? BUSY_REST_MS : LONGEST_REST_MS),
    work: async (isClosing) => {
      let done = 0;
      isBusy = false;
      await markWithdrawn(pool, clickhouse, DEVICES_AT_ONCE);
      for (;;) {
        let hours: readonly HourOf[] = [];
        const taken = await takeMarks(pool, HOURS_AT_ONCE, async (marks) => {
          hours = hoursOf(marks);
          await computeMinutes(clickhouse, marks);
        });
        if (taken === "busy") return "busy";
        done += taken;
        const sizes = await eventsOf(
          clickhouse,
          hours.map(([client_id, second]) => ({ client_id, hour: second * 1_000 })),
        );
        isBusy ||= sizes.some(({ events }) => events > BUSY_HOUR_EVENTS);
        if (hours.length < HOURS_AT_ONCE || isClosing()) break;
      }
      // New events come first. After an update, hours from before it are computed again in the
      // background.
      if (searched !== null) searched = await markOutdated(pool, clickhouse, searched, HOURS_AT_ONCE);
      return done;
    },
    waiting: () => waitingMarks(pool),
  };
};

/**
 * An hour of ten million events costs about ten seconds of CPU, and is touched for as long as it
 * lasts. After a count it rests until its events make this many a second, which is a thirtieth of a
 * core. Hours of less than a million events are counted within the minute.
 */
const EVENTS_A_SECOND = 30_000;
/**
 * A store that hangs is given up in time for law L1; a busy store reads this many events a second.
 */
const HANGS_MS = 45_000;
const READS_A_SECOND = 100_000;
/** The engine runs one statement for this long at most. */
export const ROLLUP_HOUR_MS = 600_000;

export const rollupHours = (pool: Pool, clickhouse: Clickhouse): Schedule => {
  let resting: readonly (Pick<RollupHour, "client_id" | "hour"> & { readonly until: number })[] = [];
  const compute = async (hours: readonly RollupHour[]): Promise<void> => {
    const sizes = await eventsOf(clickhouse, hours);
    const events = sizes.reduce((sum, size) => sum + size.events, 0);
    const mostMs = Math.min(HANGS_MS + Math.ceil((events / READS_A_SECOND) * 1_000), ROLLUP_HOUR_MS);
    await computeHours(clickhouse, hours, AbortSignal.timeout(mostMs));
    const now = performance.now();
    const counted = sizes.map(({ events, ...hour }) => ({ ...hour, until: now + (events / EVENTS_A_SECOND) * 1_000 }));
    resting = [...resting, ...counted];
  };
  return {
    name: "rollup-hours",
    pauseMs: 1_000,
    silentMs: ROLLUP_HOUR_MS + SILENT_MS,
    work: async (isClosing) => {
      let done = 0;
      for (;;) {
        resting = resting.filter(({ until }) => until > performance.now());
        const taken = await takeHours(pool, { most: HOURS_AT_ONCE, resting }, compute);
        if (taken === "busy") return "busy";
        done += taken;
        if (taken < HOURS_AT_ONCE || isClosing()) return done;
      }
    },
    waiting: () => waitingHours(pool, resting),
  };
};

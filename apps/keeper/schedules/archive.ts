// The schedules that end retention periods: of archived hours, of single clients' records, of
// events of the analytics store, of tables of Postgres, of values that the log has refused, of
// recordings, of identity edges, and of personal data of leads.

import type { Pool } from "pg";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import type { Objects } from "../../../infra/objects/objects.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import type { Schedule } from "../../../infra/runtime/timing/schedule.ts";
import { purgeLeads } from "../../../modules/intake/leads/purge-leads.ts";
import { deleteOldRefused } from "../../../modules/intake/path/refused-by-log.ts";
import { purgeRecordings } from "../../../modules/intake/recordings/purge-recordings.ts";
import { archiving } from "../../../modules/log/groups/archive-group.ts";
import { purgeIdentityLinks } from "../../../modules/privacy/persons/purge-identity-links.ts";
import { purgeEvents, scrubEvents } from "../../../modules/privacy/purge-events.ts";
import { purgeTables, type TablesPlace } from "../../../modules/privacy/purge-tables.ts";
import { clientRetentions, PurgeBusy, purgeArchive } from "../../../modules/privacy/retention.ts";
import { deleteOldHours } from "../../../sinks/archive/retention.ts";

/**
 * Two keepers need no lock, because deleting twice has the effect of once.
 * `tributary_schedule_done_total` counts files.
 */
export const archiveRetention = (objects: Objects, clock: () => number): Schedule => ({
  name: "archive-retention",
  pauseMs: 3_600_000,
  work: (isClosing) => deleteOldHours(objects, archiving.topic, clock(), isClosing),
});

/**
 * The length of a turn; the next turn continues. A schedule that does not return counts as dead.
 */
const TURN_MS = 45_000;
/** Tells when a turn that begins now must end. */
const turnOf = (isClosing: () => boolean): (() => boolean) => {
  const end = performance.now() + TURN_MS;
  return () => isClosing() || performance.now() > end;
};

/** What one turn of a day's work has counted; `isDone`: nothing of the day is left. */
interface Turn {
  readonly count: number;
  readonly isDone: boolean;
}
/**
 * Runs once a day (UTC), in as many turns as it needs, and again after a restart: each work here
 * does nothing where it was done.
 */
const daily = (
  name: string,
  clock: () => number,
  turn: (now: number, isOver: () => boolean) => Promise<Turn | "busy">,
): Schedule => {
  let doneOn = "";
  return {
    name,
    pauseMs: 60_000,
    work: async (isClosing) => {
      const now = clock();
      const today = new Date(now).toISOString().slice(0, 10);
      if (doneOn === today) return 0;
      const turned = await turn(now, turnOf(isClosing));
      if (turned === "busy") return turned;
      if (turned.isDone) doneOn = today;
      return turned.count;
    },
  };
};

export interface PurgePorts {
  readonly pool: Pool;
  readonly objects: Objects;
  readonly log: Pick<Log, "warn">;
  readonly clock: () => number;
}

/**
 * Ends its day also when a damaged file makes it return to the same hours.
 * `tributary_schedule_done_total` counts records.
 */
export const archivePurge = ({ pool, objects, log, clock }: PurgePorts): Schedule => {
  /**
   * A place behind a damaged file. That file holds the marks back, so a turn that began at the
   * marks would read the same hours for ever.
   */
  let goOnAt: number | null = null;
  return daily("archive-purge", clock, async (now, isClosing) => {
    try {
      const settings = { now, goOnAt, isClosing };
      const { records, damaged, stoppedAt } = await purgeArchive(pool, objects, archiving.topic, settings);
      for (const { key, message } of damaged) log.warn("archive.not_purged", { key, reason: message });
      if (damaged.length > 0 || goOnAt !== null) goOnAt = stoppedAt;
      return { count: records, isDone: stoppedAt === null };
    } catch (error) {
      if (error instanceof PurgeBusy) return "busy";
      throw error;
    }
  });
};

/**
 * Purges the analytics store. Two keepers need no lock: what both delete is gone once.
 * `tributary_schedule_done_total` counts rows.
 */
export const eventsPurge = (pool: Pool, clickhouse: Clickhouse, clock: () => number): Schedule =>
  daily("events-purge", clock, async (now) => {
    const clients = await clientRetentions(pool);
    const purged = await purgeEvents(clickhouse, clients, now);
    if (purged === "busy") return "busy";
    const scrubbed = await scrubEvents(clickhouse, clients, now);
    return { count: purged.rows + scrubbed, isDone: purged.isDone };
  });

/** The same for the tables of Postgres. `tributary_schedule_done_total` counts rows. */
export const tablesPurge = (pool: Pool, clock: () => number): Schedule => {
  let from: TablesPlace | null = null;
  return daily("tables-purge", clock, async (now, isClosing) => {
    const { rows, stoppedAt } = await purgeTables(pool, await clientRetentions(pool), { now, from, isClosing });
    from = stoppedAt;
    return { count: rows, isDone: stoppedAt === null };
  });
};

/** Two keepers need no lock here either. Counts objects. */
export const refusedRetention = (objects: Objects, clock: () => number): Schedule => ({
  name: "refused-retention",
  pauseMs: 3_600_000,
  work: (isClosing) => deleteOldRefused(objects, clock(), isClosing),
});

/** Purges recordings after 90 days, and erased ones. Counts objects. */
export const recordingRetention = (pool: Pool, objects: Objects, clock: () => number): Schedule => ({
  name: "recording-retention",
  pauseMs: 600_000,
  work: (isClosing) => purgeRecordings({ pool, objects }, clock(), turnOf(isClosing)),
});

/** Purges expired identity edges. The keeper runs it once an hour. */
export const identityRetention = (pool: Pool, clock: () => number): Schedule => ({
  name: "identity-retention",
  pauseMs: 3_600_000,
  work: (isClosing) => purgeIdentityLinks(pool, clock(), turnOf(isClosing)),
});

/** Purges personal data of leads that have outlived their client's retention. Counts leads. */
export const leadRetention = (pool: Pool, clock: () => number): Schedule => ({
  name: "lead-retention",
  pauseMs: 3_600_000,
  work: async (isClosing) =>
    purgeLeads(pool, await clientRetentions(pool), { now: clock(), isClosing: turnOf(isClosing) }),
});

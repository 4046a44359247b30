// The schedules that end what is kept for a time: hours older than events are kept, records of
// clients that keep theirs for a shorter time, values that the log has refused, recordings,
// identity edges, and what is personal of leads.

import type { Pool } from "pg";
import type { Objects } from "../../../infra/objects/objects.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import type { Schedule } from "../../../infra/runtime/timing/schedule.ts";
import { purgeLeads } from "../../../modules/intake/leads/purge-leads.ts";
import { deleteOldRefused } from "../../../modules/intake/path/refused-by-log.ts";
import { purgeRecordings } from "../../../modules/intake/recordings/purge-recordings.ts";
import { archiving } from "../../../modules/log/groups/archive-group.ts";
import { purgeIdentityLinks } from "../../../modules/privacy/persons/purge-identity-links.ts";
import { clientRetentions, PurgeBusy, purgeArchive } from "../../../modules/privacy/retention.ts";
import { deleteOldHours } from "../../../sinks/archive/retention.ts";

/**
 * Deleting the same twice is deleting it once, so two keepers need no lock; counted in
 * `tributary_schedule_done_total`, a file each.
 */
export const archiveRetention = (objects: Objects, clock: () => number): Schedule => ({
  name: "archive-retention",
  pauseMs: 3_600_000,
  work: (isClosing) => deleteOldHours(objects, archiving.topic, clock(), isClosing),
});

/** Then the next turn goes on: a schedule that does not return counts as dead. */
const TURN_MS = 45_000;

export interface PurgePorts {
  readonly pool: Pool;
  readonly objects: Objects;
  readonly log: Pick<Log, "warn">;
  readonly clock: () => number;
}

/**
 * Once a day, in as many turns as it takes: also when a damaged file makes it come back to the same
 * hours. Counted in `tributary_schedule_done_total`, a record each.
 */
export const archivePurge = ({ pool, objects, log, clock }: PurgePorts): Schedule => {
  let doneOn = "";
  /** Behind a damaged file, which holds the marks back: a turn that began there would never end. */
  let goOnAt: number | null = null;
  return {
    name: "archive-purge",
    pauseMs: 60_000,
    work: async (isClosing) => {
      const now = clock();
      const today = new Date(now).toISOString().slice(0, 10);
      if (doneOn === today) return 0;
      const end = performance.now() + TURN_MS;
      const settings = { now, goOnAt, isClosing: () => isClosing() || performance.now() > end };
      try {
        const { records, damaged, stoppedAt } = await purgeArchive(pool, objects, archiving.topic, settings);
        for (const { key, message } of damaged) log.warn("archive.not_purged", { key, reason: message });
        if (stoppedAt === null) doneOn = today;
        if (damaged.length > 0 || goOnAt !== null) goOnAt = stoppedAt;
        return records;
      } catch (error) {
        if (error instanceof PurgeBusy) return "busy";
        throw error;
      }
    },
  };
};

/** As with hours, twice is once; an object each. */
export const refusedRetention = (objects: Objects, clock: () => number): Schedule => ({
  name: "refused-retention",
  pauseMs: 3_600_000,
  work: (isClosing) => deleteOldRefused(objects, clock(), isClosing),
});

/** Recordings of 90 days ago, and those that were erased; an object each. */
export const recordingRetention = (pool: Pool, objects: Objects, clock: () => number): Schedule => ({
  name: "recording-retention",
  pauseMs: 600_000,
  work: (isClosing) => {
    const end = performance.now() + TURN_MS;
    return purgeRecordings({ pool, objects }, clock(), () => isClosing() || performance.now() > end);
  },
});

/** Identity edges that ran out; the keeper asks once an hour. */
export const identityRetention = (pool: Pool, clock: () => number): Schedule => ({
  name: "identity-retention",
  pauseMs: 3_600_000,
  work: (isClosing) => {
    const end = performance.now() + TURN_MS;
    return purgeIdentityLinks(pool, clock(), () => isClosing() || performance.now() > end);
  },
});

/** What is personal of leads that are older than their client keeps its events; a lead each. */
export const leadRetention = (pool: Pool, clock: () => number): Schedule => ({
  name: "lead-retention",
  pauseMs: 3_600_000,
  work: async (isClosing) => {
    const end = performance.now() + TURN_MS;
    const ends = () => isClosing() || performance.now() > end;
    return purgeLeads(pool, await clientRetentions(pool), { now: clock(), isClosing: ends });
  },
});

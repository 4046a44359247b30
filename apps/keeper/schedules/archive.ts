// The schedule that deletes hours of the archive which are older than events are kept.

import type { Objects } from "../../../infra/objects/objects.ts";
import type { Schedule } from "../../../infra/runtime/timing/schedule.ts";
import { archiving } from "../../../modules/groups/archiving.ts";
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

// Deletes hours that are older than events are kept.

import { monthsBefore } from "../../domain/calendar.ts";
import type { Objects } from "../../infra/objects/objects.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { hoursOf } from "./archive-reads.ts";
import { folderOf, hourText } from "./names.ts";

/**
 * As long as events are kept anywhere (docs/design/contracts.md, "Retention"); older ones would
 * come back by a restore.
 */
const KEPT_MONTHS = 24;

/** What was received before this time is kept no longer; months as an edge counts them. */
export const keptSince = (now: UnixMs, months = KEPT_MONTHS): UnixMs => monthsBefore(now, months);

/**
 * Answers the number of files that were deleted. Of each file the records go before the
 * announcement, so that a process that dies in between leaves an announcement in an hour that the
 * next run deletes. Schemas stay: they are few, and younger hours need them.
 */
export const deleteOldHours = async (
  objects: Objects,
  topic: string,
  now: UnixMs,
  isClosing: () => boolean,
): Promise<number> => {
  let files = 0;
  for await (const hour of hoursOf(objects, topic, { to: keptSince(now) })) {
    const keys: string[] = [];
    for await (const { key } of objects.list(`${folderOf(topic)}${hourText(hour)}/`)) keys.push(key);
    for (const key of keys) {
      if (isClosing()) return files;
      await objects.delete(key);
      if (key.endsWith(".avro")) files++;
    }
  }
  return files;
};

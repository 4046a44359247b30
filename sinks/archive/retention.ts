// Deletes hours that are older than the retention of events.

import { monthsBefore } from "../../domain/calendar.ts";
import type { Objects } from "../../infra/objects/objects.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { hoursOf } from "./archive-reads.ts";
import { folderOf, hourText } from "./names.ts";

/**
 * The longest retention of events anywhere (docs/design/contracts.md, "Retention"). Otherwise a
 * restore would bring older ones back.
 */
const KEPT_MONTHS = 24;

/** The time before which nothing is kept. Months are counted as at an edge. */
export const keptSince = (now: UnixMs, months = KEPT_MONTHS): UnixMs => monthsBefore(now, months);

/**
 * Returns the number of deleted files. The records of a file are deleted before its announcement,
 * so a crash in between leaves an announcement in an hour that the next run deletes. Schemas stay,
 * because they are few and younger hours need them.
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

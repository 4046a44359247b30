// Removes the records of clients with a shorter retention from the files of the archive, which hold
// the records of all clients.

import { hit } from "#failpoint";
import { ObjectMissing, type Objects } from "../../infra/objects/objects.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { filesOf, hoursOf, readFile } from "./archive-reads.ts";
import { type ArchivedRecord, DamagedArchive, rewriteContainer } from "./container.ts";
import { type ArchiveFile, HOUR_MS, hourText, noticeKey } from "./names.ts";
import { keptSince } from "./retention.ts";

/** How long a client keeps its events. */
export interface ClientRetention {
  readonly clientId: number;
  /** 1 to 24. */
  readonly months: number;
}
/** The hours of a client, from `from` up to, but not including, `until`, whose records must go. */
interface DueHours {
  readonly clientId: number;
  readonly from: UnixMs;
  readonly until: UnixMs;
}
export interface PurgeResult {
  /** Files that contained a record of such a client. */
  readonly files: number;
  readonly records: number;
  readonly byClient: ReadonlyMap<number, number>;
  /** Damaged files are not changed. The next run looks at them again. */
  readonly damaged: readonly { readonly key: string; readonly message: string }[];
  /** The hour at which the run stopped early; the next run continues there. Null if it is done. */
  readonly stoppedAt: UnixMs | null;
}

export interface PurgeSettings {
  readonly now: UnixMs;
  readonly isClosing: () => boolean;
  /** Only reads and counts. */
  readonly isDry?: boolean;
  /**
   * The hour in which a run stopped at a damaged file. Earlier hours are skipped, and no mark moves
   * past them.
   */
  readonly goOnAt?: UnixMs | null;
}

const DAY_MS = 86_400_000;
/** The hour, by client, before which no record of the client is left. */
type Marks = Readonly<Record<string, UnixMs>>;
const markKey = (topic: string): string => `retention/${topic}.json`;

const marksOf = async (objects: Objects, topic: string): Promise<Marks> => {
  try {
    return JSON.parse(String(await objects.get(markKey(topic)))) as Marks;
  } catch (error) {
    if (error instanceof ObjectMissing) return {};
    throw error;
  }
};

/** Counts in whole days, so that a file is read at most once a day, for all clients together. */
const dueOf = (clients: readonly ClientRetention[], marks: Marks, now: UnixMs): readonly DueHours[] =>
  clients
    .map(({ clientId, months }) => ({
      clientId,
      // Older hours are deleted as a whole (retention.ts).
      from: Math.max(marks[clientId] ?? 0, keptSince(now)),
      until: Math.floor(keptSince(now, months) / DAY_MS) * DAY_MS,
    }))
    .filter(({ from, until }) => from < until);

/** Keys of the log begin with the client's id. */
const clientOf = ({ key }: ArchivedRecord): number => (key === null ? Number.NaN : Number.parseInt(String(key), 10));

/**
 * Rewrites each file that holds expired records, in the order of hours. 1. The announcement names
 * the new contents and the file that they replace. After a crash here both are valid, and the next
 * run writes the file. 2. The file is written under the same name. 3. At the end the mark of each
 * client moves. After a crash before that, the same files are read again. The caller holds a lock,
 * because two purges at once could bring records back.
 */
export const purgeExpired = async (
  objects: Objects,
  topic: string,
  clients: readonly ClientRetention[],
  settings: PurgeSettings,
): Promise<PurgeResult> => {
  const marks = await marksOf(objects, topic);
  const due = dueOf(clients, marks, settings.now);
  const found = { files: 0, byClient: new Map<number, number>(), damaged: [] as PurgeResult["damaged"][number][] };
  const { goOnAt = null } = settings;
  const from = Math.max(goOnAt ?? 0, Math.min(...due.map((one) => one.from)));
  const to = Math.max(...due.map((one) => one.until));
  let cleanUntil = goOnAt === null ? to : 0;
  let stoppedAt: UnixMs | null = null;
  if (due.length > 0)
    for await (const hour of hoursOf(objects, topic, { from, to })) {
      if (settings.isClosing()) {
        stoppedAt = hour;
        cleanUntil = Math.min(cleanUntil, hour);
        break;
      }
      const damagedBefore = found.damaged.length;
      const gone = new Set(due.filter((one) => one.from <= hour && hour < one.until).map(({ clientId }) => clientId));
      if (gone.size > 0) await purgeHour(objects, { topic, hour, gone, isDry: settings.isDry === true }, found);
      if (found.damaged.length > damagedBefore) cleanUntil = Math.min(cleanUntil, hour);
    }
  if (!settings.isDry && due.length > 0) await moveMarks(objects, topic, marks, due, cleanUntil);
  const records = [...found.byClient.values()].reduce((sum, count) => sum + count, 0);
  return { ...found, records, stoppedAt };
};

interface Hour {
  readonly topic: string;
  readonly hour: UnixMs;
  readonly gone: ReadonlySet<number>;
  readonly isDry: boolean;
}
const purgeHour = async (
  objects: Objects,
  { topic, hour, gone, isDry }: Hour,
  found: { files: number; readonly byClient: Map<number, number>; readonly damaged: PurgeResult["damaged"][number][] },
): Promise<void> => {
  for await (const file of filesOf(objects, topic, { from: hour, to: hour + HOUR_MS }))
    try {
      const removed = await purgeFile(objects, file, gone, isDry);
      if (removed.size > 0) found.files += 1;
      for (const [client, count] of removed) found.byClient.set(client, (found.byClient.get(client) ?? 0) + count);
    } catch (error) {
      if (!(error instanceof DamagedArchive)) throw error;
      found.damaged.push({ key: file.key, message: error.message });
    }
};

/**
 * Removes the records of these clients from one file. Returns their number by client; a dry run
 * only counts them.
 */
const purgeFile = async (
  objects: Objects,
  file: ArchiveFile,
  gone: ReadonlySet<number>,
  isDry: boolean,
): Promise<ReadonlyMap<number, number>> => {
  const { records, contents } = await readFile(objects, file);
  const removed = new Map<number, number>();
  const kept = records.filter((record) => {
    const client = clientOf(record);
    if (!gone.has(client)) return true;
    removed.set(client, (removed.get(client) ?? 0) + 1);
    return false;
  });
  if (removed.size === 0 || isDry) return removed;
  const made = await rewriteContainer(contents, kept);
  const announced = { ...made.contents, replaces: contents.sha256 };
  await objects.put(noticeKey(file, file.first), Buffer.from(`${JSON.stringify(announced)}\n`));
  hit("after-announced-again");
  await objects.put(file.key, made.file);
  return removed;
};

const moveMarks = async (
  objects: Objects,
  topic: string,
  marks: Marks,
  due: readonly DueHours[],
  cleanUntil: UnixMs,
): Promise<void> => {
  const moved = due.map(({ clientId, from, until }) => [clientId, Math.max(from, Math.min(until, cleanUntil))]);
  await objects.put(markKey(topic), Buffer.from(`${JSON.stringify({ ...marks, ...Object.fromEntries(moved) })}\n`));
};

/** The time before which a client's events are gone, for people: `2026-10-01T00`. */
export const keptSinceText = (months: number, now: UnixMs): string =>
  hourText(Math.floor(keptSince(now, months) / DAY_MS) * DAY_MS);

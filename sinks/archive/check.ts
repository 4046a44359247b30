// Checks law C11 on the data alone: the files of the archive cover all committed records, without
// gap, overlap or damage. Also measures how far the archive is behind.
import type { Admin } from "../../infra/kafka/kafka.ts";
import type { Objects } from "../../infra/objects/objects.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { filesOf, hoursOf, readFile, type Span } from "./archive-reads.ts";
import type { Contents } from "./container.ts";
import { type ArchiveFile, fileKey, hourText, noticeKey, noticeOf } from "./names.ts";

/** The group that writes the archive, as it is hosted now (modules/log/groups/hosts.ts). */
export interface ArchiveHost {
  readonly group: string;
  readonly topic: string;
}

/**
 * Offsets of a partition that no file or two files contain. `hour` is the hour of the file behind
 * them, or of the last file.
 */
export interface Stretch {
  readonly partition: number;
  readonly from: number;
  /** Exclusive. */
  readonly until: number;
  readonly hour: string;
}
export interface ArchiveState {
  /** Hours with files, e.g. `2026-11-21T16`. */
  readonly hours: readonly string[];
  readonly files: number;
  readonly events: number;
  readonly bytes: number;
  readonly gaps: readonly Stretch[];
  readonly overlaps: readonly Stretch[];
  readonly damaged: readonly { readonly key: string; readonly message: string }[];
}

/** Finds where two neighbouring files of a partition do not join. */
export const seamsOf = (files: readonly ArchiveFile[]): Pick<ArchiveState, "gaps" | "overlaps"> => {
  const gaps: Stretch[] = [];
  const overlaps: Stretch[] = [];
  const ends = new Map<number, number>();
  for (const { partition, first, last, hour } of [...files].sort(
    (a, b) => a.partition - b.partition || a.first - b.first,
  )) {
    const end = ends.get(partition) ?? first;
    if (first > end) gaps.push({ partition, from: end, until: first, hour: hourText(hour) });
    if (first < end) overlaps.push({ partition, from: first, until: Math.min(end, last + 1), hour: hourText(hour) });
    ends.set(partition, Math.max(end, last + 1));
  }
  return { gaps, overlaps };
};

/**
 * The offsets before the first and behind the last file of a partition that no file contains,
 * between the log's beginning (`low`) and the committed offset.
 */
export const uncoveredEnds = (
  files: readonly ArchiveFile[],
  committed: ReadonlyMap<number, number>,
  low: ReadonlyMap<number, number>,
): readonly Stretch[] => {
  const covered = new Map<number, { readonly first: number; readonly end: number; readonly hour: UnixMs }>();
  for (const { partition, first, last, hour } of files) {
    const known = covered.get(partition);
    covered.set(partition, {
      first: Math.min(known?.first ?? first, first),
      end: Math.max(known?.end ?? 0, last + 1),
      hour,
    });
  }
  return [...committed].flatMap(([partition, until]) => {
    const known = covered.get(partition);
    const hour = hourText(known?.hour ?? 0);
    const start = low.get(partition) ?? 0;
    const first = Math.min(until, known?.first ?? until);
    const end = Math.max(first, known?.end ?? first);
    const ends = [
      { partition, from: start, until: first, hour },
      { partition, from: end, until, hour },
    ];
    return ends.filter((stretch) => stretch.from < stretch.until);
  });
};

type AnnouncedFile = Contents & { readonly replaces?: string };

/** Returns why a file is damaged: it cannot be read, or it is not the file that was announced. */
const damageOf = async (objects: Objects, file: ArchiveFile): Promise<string | undefined> => {
  try {
    const { contents } = await readFile(objects, file);
    const announced = JSON.parse(String(await objects.get(noticeKey(file, file.first)))) as AnnouncedFile;
    // A purge announces the new file before it writes it, so until then the replaced file is valid
    // too.
    return [announced.sha256, announced.replaces].includes(contents.sha256)
      ? undefined
      : "it is not the file that was announced";
  } catch (error) {
    return (error as Error).message;
  }
};

export interface CheckSettings extends Span {
  /** Reads every file and compares its checksum. Default: true. */
  readonly verify?: boolean;
  readonly onFile?: (done: number) => void;
}

/**
 * Checks law C11. Everything that the archive's group has committed must be in files, from the
 * beginning of the archive or of the log, whichever is later. Files beyond the committed offset are
 * still being written. With a span, only its hours are checked, and the log is not asked.
 */
export const checkArchive = async (
  objects: Objects,
  admin: Pick<Admin, "committed" | "watermarks">,
  { group, topic }: ArchiveHost,
  settings: CheckSettings = {},
): Promise<ArchiveState> => {
  const { verify = true, onFile = () => undefined } = settings;
  const isWhole = settings.from === undefined && settings.to === undefined;
  // Read first, so that everything committed is stored by the time that the files are listed.
  const committed = await admin.committed(group, topic);
  const low = new Map((await admin.watermarks(topic)).map((mark) => [mark.partition, mark.low]));
  const files: ArchiveFile[] = [];
  for await (const file of filesOf(objects, topic, settings)) files.push(file);
  const { gaps, overlaps } = seamsOf(files);

  const atEnds = isWhole ? uncoveredEnds(files, committed, low) : [];

  const damaged: { key: string; message: string }[] = [];
  if (verify)
    for (const [n, file] of files.entries()) {
      const message = await damageOf(objects, file);
      if (message !== undefined) damaged.push({ key: file.key, message });
      onFile(n + 1);
    }
  damaged.push(
    ...(await missingFiles(
      objects,
      topic,
      settings,
      new Set(files.map((file) => noticeKey(file, file.first))),
      committed,
    )),
  );
  return {
    hours: [...new Set(files.map(({ hour }) => hourText(hour)))].sort(),
    files: files.length,
    events: files.reduce((sum, { first, last }) => sum + last - first + 1, 0),
    bytes: files.reduce((sum, { bytes }) => sum + bytes, 0),
    gaps: [...gaps, ...atEnds],
    overlaps,
    damaged,
  };
};

/**
 * Files that were announced and committed but are missing. `present` holds the announcements of the
 * existing files. Files that are not committed are still being written.
 */
const missingFiles = async (
  objects: Objects,
  topic: string,
  span: Span,
  present: ReadonlySet<string>,
  committed: ReadonlyMap<number, number>,
): Promise<readonly { readonly key: string; readonly message: string }[]> => {
  const missing: { key: string; message: string }[] = [];
  for await (const hour of hoursOf(objects, topic, span))
    for await (const { key } of objects.list(`archive/${topic}/${hourText(hour)}/`)) {
      const place = noticeOf(key);
      if (place === undefined || present.has(key) || place.first >= (committed.get(place.partition) ?? 0)) continue;
      const { first, last } = JSON.parse(String(await objects.get(key))) as Contents;
      missing.push({ key: fileKey(place, first, last), message: "it was announced and is not there" });
    }
  return missing;
};

/**
 * The current hour may still be written. A record may wait this long before an operator must look
 * (docs/design/contracts.md, "Health").
 */
const ARCHIVE_TOLERANCE_MS = 5 * 60_000;

/**
 * Counts the records that were appended more than `toleratedMs` ago and are not archived. 0 if the
 * archive keeps up. Rejects while the log cannot be reached. The exact age of the oldest would need
 * a read of that record.
 */
export const archiveBehind = async (
  admin: Pick<Admin, "committed" | "watermarks" | "offsetsAt">,
  { group, topic }: ArchiveHost,
  toleratedMs = ARCHIVE_TOLERANCE_MS,
  now = Date.now(),
): Promise<number> => {
  const [marks, due, committed] = await Promise.all([
    admin.watermarks(topic),
    admin.offsetsAt(topic, now - toleratedMs),
    admin.committed(group, topic),
  ]);
  return marks.reduce((sum, { partition, low, high }) => {
    const until = Math.min(high, due.get(partition) ?? high);
    return sum + Math.max(0, until - Math.max(low, committed.get(partition) ?? low));
  }, 0);
};

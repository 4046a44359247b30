// Reads the archive: its hours, the files of an hour, the records of a file, and the past of a
// partition for a stage that relearns it.

import type { Objects } from "../../infra/objects/objects.ts";
import type { UnixMs } from "../../stream/flow.ts";
import type { InputMessage } from "../../stream/messages.ts";
import type { PastBatch, PastReader } from "../../stream/ports.ts";
import { type ArchivedRecord, type Contents, DamagedArchive, readContainer } from "./container.ts";
import { type ArchiveFile, fileOf, folderOf, hourOf, hourOfKey, hourText, prefixOf } from "./names.ts";
import type { WithheldFilter } from "./withheld-filter.ts";

/** Sorts behind everything that a key may contain. */
const BEHIND = "~";

export interface Span {
  /** The first hour is the one that contains this time. */
  readonly from?: UnixMs;
  /** Hours that begin before this time. */
  readonly to?: UnixMs;
}

/**
 * The hours that have files, oldest first. Takes one request for each hour, however many files it
 * has.
 */
export const hoursOf = async function* (
  objects: Objects,
  topic: string,
  { from, to }: Span = {},
): AsyncIterable<UnixMs> {
  const folder = folderOf(topic);
  // A key of the first hour sorts behind the bare name of its folder.
  let after = from === undefined ? "" : `${folder}${hourText(hourOf(from))}`;
  for (;;) {
    let hour: UnixMs | null = null;
    for await (const { key } of objects.list(folder, after)) {
      hour = hourOfKey(key);
      if (hour === null) throw new Error(`${key} does not belong into ${folder}`);
      break;
    }
    if (hour === null || (to !== undefined && hour >= to)) return;
    yield hour;
    after = `${folder}${hourText(hour)}/${BEHIND}`;
  }
};

/** The files of a span's hours, by hour, partition and offset. */
export const filesOf = async function* (objects: Objects, topic: string, span: Span = {}): AsyncIterable<ArchiveFile> {
  const folder = folderOf(topic);
  const after = span.from === undefined ? "" : `${folder}${hourText(hourOf(span.from))}`;
  for await (const { key, bytes } of objects.list(folder, after)) {
    const file = fileOf(key, bytes);
    if (file === undefined) continue;
    if (span.to !== undefined && file.hour >= span.to) return;
    yield file;
  }
};

/**
 * Reads and verifies every record of a file. Throws Damaged, also if the contents do not match the
 * file's name.
 */
export const readFile = async (
  objects: Objects,
  { key, partition, first, last }: ArchiveFile,
): Promise<{ readonly records: readonly ArchivedRecord[]; readonly contents: Contents }> => {
  const read = await readContainer(key, await objects.get(key));
  const { contents } = read;
  if (contents.partition !== partition || contents.first !== first || contents.last !== last)
    throw new DamagedArchive(key, `it holds ${contents.partition}-${contents.first}-${contents.last}: it was renamed`);
  return read;
};

export const messageOf = ({ offset, key, value, headers, appended_at }: ArchivedRecord): InputMessage => ({
  offset,
  key,
  value,
  headers: Object.fromEntries(headers.map((header) => [header.name, header.value ?? undefined])),
  appendedAt: appended_at,
});

/** The number of records that a stage relearns between two heartbeats. */
const BATCH_RECORDS = 2_000;

export interface PastSettings {
  /** Older hours are skipped, because no memory goes back further. */
  readonly since: () => UnixMs;
  readonly withheld?: WithheldFilter;
}

/** The `past` of a runner, read from the archive. Empty for a topic that is not archived. */
export const pastOf = (objects: Objects, { since, withheld }: PastSettings): PastReader =>
  async function* (topic, partition, from, until): AsyncIterable<PastBatch> {
    for await (const hour of hoursOf(objects, topic, { from: since() }))
      for await (const { key, bytes } of objects.list(prefixOf({ topic, hour, partition }))) {
        const file = fileOf(key, bytes);
        if (file === undefined || file.last < from || file.first >= until) continue;
        const { records } = await readFile(objects, file);
        const isWithheld = await withheld?.();
        const wanted = records.filter(({ offset }) => offset >= from && offset < until);
        // A file covers its offsets even if retention removed records from it.
        let next = Math.max(from, file.first);
        const end = Math.min(until, file.last + 1);
        for (let n = 0; n === 0 || n < wanted.length; n += BATCH_RECORDS) {
          const part = wanted.slice(n, n + BATCH_RECORDS);
          const messages = part.map(messageOf).filter((message) => isWithheld?.(message, partition) !== true);
          const upTo = n + BATCH_RECORDS < wanted.length ? part.at(-1)!.offset + 1 : end;
          yield { topic, partition, messages, from: next, until: upTo };
          next = upTo;
        }
      }
  };

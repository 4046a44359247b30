// Stores batches of the log as files that join without gap or overlap, whichever process crashes at
// any moment and however many processes store the same records.
import { hit } from "#failpoint";
import { ObjectMissing, type Objects } from "../../infra/objects/objects.ts";
import type { UnixMs } from "../../stream/flow.ts";
import type { FetchedBatch } from "../../stream/messages.ts";
import type { CopyPorts } from "../../stream/ports.ts";
import { type ArchivedRecord, type Contents, type OpenContainer, openContainer } from "./container.ts";
import { fileKey, fileOf, HOUR_MS, hourOf, noticeKey, type Place, prefixOf, schemaKey } from "./names.ts";

/** Garbage may contain any schema id, so the known ids are forgotten beyond this number. */
const IDS_KEPT = 10_000;
const NO_HEADERS: ArchivedRecord["headers"] = [];

type Message = FetchedBatch["messages"][number];

const recordOf = ({ offset, appendedAt, key, value, headers }: Message): ArchivedRecord => {
  const names = Object.keys(headers);
  const asBuffer = (held: Buffer | string | undefined): Buffer | null =>
    held === undefined ? null : Buffer.from(held);
  const list = names.length === 0 ? NO_HEADERS : names.map((name) => ({ name, value: asBuffer(headers[name]) }));
  return { offset, appended_at: appendedAt, key, value, headers: list };
};

/** Stores each schema that records name, once. */
const schemaStore = (objects: Objects, schemaOf: (schemaId: number) => Promise<object | null>) => {
  const knownIds = new Set<number>();
  return async (messages: readonly Message[]): Promise<void> => {
    const ids = new Set<number>();
    for (const { value } of messages)
      if (value !== null && value.length > 5 && value[0] === 0) ids.add(value.readUInt32BE(1));
    for (const id of ids) {
      if (knownIds.has(id)) continue;
      const schema = await schemaOf(id);
      if (schema !== null) await objects.putNew(schemaKey(id), Buffer.from(JSON.stringify(schema)));
      if (knownIds.size >= IDS_KEPT) knownIds.clear();
      knownIds.add(id);
    }
  };
};

const isStored = async (objects: Objects, key: string): Promise<boolean> => {
  for await (const one of objects.list(key)) return one.key === key;
  return false;
};

/**
 * The offset behind the file that contains this record. The record's own offset if there is no such
 * file.
 */
const endOfStored = async (
  objects: Objects,
  { topic, partition }: FetchedBatch,
  { offset, appendedAt }: Message,
): Promise<number> => {
  for (const hour of [hourOf(appendedAt), hourOf(appendedAt) + HOUR_MS])
    for await (const { key, bytes } of objects.list(prefixOf({ topic, hour, partition }))) {
      const file = fileOf(key, bytes);
      if (file !== undefined && file.first <= offset && offset <= file.last) return file.last + 1;
    }
  return offset;
};

const announcementAt = async (objects: Objects, place: Place, first: number): Promise<Contents | undefined> => {
  try {
    return JSON.parse(String(await objects.get(noticeKey(place, first)))) as Contents;
  } catch (error) {
    if (error instanceof ObjectMissing) return undefined;
    throw error;
  }
};

/** Announces a file. Returns the earlier announcement if there is one. */
const announce = async (objects: Objects, place: Place, mine: Contents): Promise<Contents> => {
  const key = noticeKey(place, mine.first);
  if (await objects.putNew(key, Buffer.from(`${JSON.stringify(mine)}\n`))) return mine;
  return JSON.parse(String(await objects.get(key))) as Contents;
};

/**
 * A file that is being written. Its records are packed as they arrive, and it is stored when it is
 * closed.
 */
interface OpenFile {
  readonly place: Place;
  readonly first: number;
  /** The offset at which the next batch of the file begins. */
  next: number;
  readonly container: OpenContainer;
  /**
   * The file that another member has announced from this offset on. This file must become that one.
   */
  readonly announced: Contents | undefined;
}

/** A file with more bytes than this, before compression, is closed. */
const FILE_BYTES = 32 * 1024 * 1024;

const isWhole = ({ announced, next, container }: OpenFile, until: number): boolean =>
  announced === undefined ? next >= until || container.bytes() >= FILE_BYTES : next > announced.last;

/**
 * The number of messages, from `at` on, that belong into the file: up to the end of its hour, or of
 * the announced file. If the broker's clock steps back, the records stay in the open file.
 */
const countFor = ({ place, announced }: OpenFile, messages: readonly Message[], at: number): number => {
  const hourEnd = place.hour + HOUR_MS;
  const isBehind = ({ offset, appendedAt }: Message): boolean =>
    announced === undefined ? appendedAt >= hourEnd : offset > announced.last;
  let end = at;
  while (end < messages.length && !isBehind(messages[end]!)) end++;
  return end - at;
};

/** The state of one process while it stores into the archive. */
interface Archive {
  readonly objects: Objects;
  readonly storeSchemas: ReturnType<typeof schemaStore>;
  /** The open file of each partition, while it is read. */
  open: Map<string, OpenFile>;
  /** The offset at which a partition's next batch begins, if it follows the last file. */
  readonly expected: Map<string, number>;
}

/**
 * Begins a file at this record. Where no file is known to have ended, it asks what other members
 * have stored or announced from here on.
 */
const begin = async (
  { objects, expected }: Archive,
  batch: FetchedBatch,
  message: Message,
): Promise<OpenFile | { readonly storedUntil: number }> => {
  const { topic, partition } = batch;
  const place: Place = { topic, partition, hour: hourOf(message.appendedAt as UnixMs) };
  const { offset: first } = message;
  const follows = expected.get(`${topic}/${partition}`) === first;
  const storedUntil = follows ? first : await endOfStored(objects, batch, message);
  if (storedUntil > first) return { storedUntil };
  const announced = follows ? undefined : await announcementAt(objects, place, first);
  return { place, first, next: first, container: openContainer(), announced };
};

/**
 * Stores the file. Returns the offset behind it, or its first offset if the records must be read
 * again, up to another end.
 */
const close = async (objects: Objects, file: OpenFile): Promise<number> => {
  const { place, first } = file;
  const { topic, partition } = place;
  const made = await file.container.close({ topic, partition, first, last: file.next - 1 });
  const announced = file.announced ?? (await announce(objects, place, made.contents));
  hit("after-announcement");
  const key = fileKey(place, announced.first, announced.last);
  if (announced.sha256 !== made.contents.sha256) {
    if (await isStored(objects, key)) return announced.last + 1;
    if (file.announced === undefined) return first;
    throw new Error(`${key} was announced with other contents than the log holds`);
  }
  await objects.put(key, made.file);
  hit("after-file");
  return announced.last + 1;
};

/** Adds the messages of a batch to files of their partition, and closes those that are whole. */
const keepBatch = async (
  archive: Archive,
  batch: FetchedBatch,
  until: number,
  heartbeat: () => Promise<void>,
): ReturnType<CopyPorts["keep"]> => {
  const { topic, partition, messages } = batch;
  const place = `${topic}/${partition}`;
  const { open: files, expected } = archive;
  let next = messages[0]!.offset;
  let file = files.get(place);
  if (file?.next !== next) file = undefined;
  // If anything fails from here on, the file is begun again where it began.
  files.delete(place);
  if (file === undefined && expected.get(place) !== next) expected.delete(place);
  await archive.storeSchemas(messages);
  for (let at = 0; at < messages.length; ) {
    await heartbeat();
    if (file === undefined) {
      const begun = await begin(archive, batch, messages[at]!);
      expected.delete(place);
      if ("storedUntil" in begun) {
        next = begun.storedUntil;
        at = messages.findIndex(({ offset }) => offset >= next);
        // A file of another member may reach beyond this batch. Its end is then looked up again.
        if (at < 0) return { stored: next, next };
        expected.set(place, next);
        continue;
      }
      file = begun;
    }
    const part = messages.slice(at, at + countFor(file, messages, at));
    await file.container.add(part.map(recordOf));
    if (part.length > 0) file.next = part.at(-1)!.offset + 1;
    at += part.length;
    if (at === messages.length && !isWhole(file, until)) {
      files.set(place, file);
      return { stored: file.first, next: file.next };
    }
    next = await close(archive.objects, file);
    // Another member has cut its files elsewhere: read on from there, and find out what it has
    // stored.
    if (next !== file.next) return { stored: next, next };
    expected.set(place, next);
    file = undefined;
  }
  return { stored: next, next };
};

/**
 * The `keep` of a copy for the archive. A file is closed when it contains everything that waited in
 * the log, when it is large enough, or when its hour is over. It is announced before it is stored.
 * Several members may store from the same offset on, because one was killed, or stopped and woke
 * again. The announcement of one is valid, and all of them store that very file. Every file begins
 * where another one ended: an offset is committed at the end of a file, or inside an existing file,
 * whose end is then looked up. So there is one chain of files. The order for each file is:
 * 1. the schemas that its records name; after a crash here they are stored again;
 * 2. the announcement, if there is none at this offset; after a crash here the next member reads
 * the same records from the log and stores the announced file;
 * 3. the file; after a crash here the next member finds it and continues behind it. Then the runner
 * commits the offset.
 */
export const archiver = (
  objects: Objects,
  schemaOf: (schemaId: number) => Promise<object | null>,
): { readonly keep: CopyPorts["keep"]; readonly forget: () => void } => {
  const storeSchemas = schemaStore(objects, schemaOf);
  const open = new Map<string, OpenFile>();
  const expected = new Map<string, number>();
  const archive: Archive = { objects, storeSchemas, open, expected };
  return {
    keep: (batch, until, heartbeat) => keepBatch(archive, batch, until, heartbeat),
    forget: () => {
      archive.open = new Map();
    },
  };
};

/**
 * Reads a schema that the registry may have forgotten. Null if the archive does not have it either.
 */
export const archivedSchema = async (objects: Objects, schemaId: number): Promise<object | null> => {
  try {
    return JSON.parse(String(await objects.get(schemaKey(schemaId)))) as object;
  } catch (error) {
    if (error instanceof ObjectMissing) return null;
    throw error;
  }
};

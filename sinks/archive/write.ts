// Stores batches of the log as files that join without gap or overlap, whichever process dies when
// and however many store the same records.
import { hit } from "#failpoint";
import { ObjectMissing, type Objects } from "../../infra/objects/objects.ts";
import type { UnixMs } from "../../stream/flow.ts";
import type { CopyPorts, FetchedBatch } from "../../stream/messages.ts";
import { type ArchivedRecord, type Contents, writeContainer } from "./container.ts";
import { fileKey, fileOf, HOUR_MS, hourOf, noticeKey, type Place, prefixOf, schemaKey } from "./names.ts";

/** Garbage may name any schema: what is known about ids is forgotten beyond so many. */
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

/**
 * Up to where the first record's hour ends. Should the broker's clock step back, the records stay
 * in the file that is open.
 */
const endOfHour = (messages: readonly Message[]): number => {
  const limit = hourOf(messages[0]!.appendedAt) + HOUR_MS;
  const beyond = messages.findIndex(({ appendedAt }) => appendedAt >= limit);
  return beyond < 0 ? messages.length : beyond;
};

/**
 * What `keep` of a copy is for the archive. A file is announced before it is written: of several
 * members that store from one offset on (one was killed, or stopped and woke again), the
 * announcement of one stands, and all of them write that very file. Every file begins where one has
 * ended, since an offset is committed at the end of a file, or inside of one that stands, whose end
 * is then looked for; hence there is one chain of files, whatever dies when. In order, for each
 * file:
 * 1. the schemas that its records name -> dying here leaves schemas that are stored again
 * 2. the announcement, if there is none at this offset -> the next member reads the same records
 * from the log, and writes the file that was announced 3. the file -> the next member finds it and
 * goes on behind it and then the runner commits the offset.
 */
export const archiver = (
  objects: Objects,
  schemaOf: (schemaId: number) => Promise<object | null>,
): CopyPorts["keep"] => {
  /** By partition: where the next batch begins, if it follows. */
  const expected = new Map<string, number>();
  const knownIds = new Set<number>();

  const storeSchemas = async (messages: readonly Message[]): Promise<void> => {
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

  const isStored = async (key: string): Promise<boolean> => {
    for await (const one of objects.list(key)) return one.key === key;
    return false;
  };

  /**
   * Where the file ends that holds this record; the record's own offset when none does. Asked only
   * where no file is known to have ended.
   */
  const endOfStored = async ({ topic, partition }: FetchedBatch, { offset, appendedAt }: Message): Promise<number> => {
    for (const hour of [hourOf(appendedAt), hourOf(appendedAt) + HOUR_MS])
      for await (const { key, bytes } of objects.list(prefixOf({ topic, hour, partition }))) {
        const file = fileOf(key, bytes);
        if (file !== undefined && file.first <= offset && offset <= file.last) return file.last + 1;
      }
    return offset;
  };

  /** What is stored at this place: what was announced before, else what is at hand. */
  const announce = async (place: Place, mine: Contents): Promise<Contents> => {
    const key = noticeKey(place, mine.first);
    if (await objects.putNew(key, Buffer.from(`${JSON.stringify(mine)}\n`))) return mine;
    return JSON.parse(String(await objects.get(key))) as Contents;
  };

  /**
   * The offset behind the file that begins with the first of these messages; that offset itself
   * when the file needs more than is at hand.
   */
  const storeFile = async (batch: FetchedBatch, messages: readonly Message[]): Promise<number> => {
    const { topic, partition } = batch;
    const place: Place = { topic, partition, hour: hourOf(messages[0]!.appendedAt as UnixMs) };
    const records = messages.slice(0, endOfHour(messages)).map(recordOf);
    let made = await writeContainer(topic, partition, records);
    const announced = await announce(place, made.contents);
    hit("after-announcement");
    const { first, last, sha256 } = announced;
    const key = fileKey(place, first, last);
    if (sha256 !== made.contents.sha256) {
      if (await isStored(key)) return last + 1;
      if (last > records.at(-1)!.offset) return first;
      made = await writeContainer(
        topic,
        partition,
        records.filter(({ offset }) => offset <= last),
      );
      if (made.contents.sha256 !== sha256)
        throw new Error(`${key} was announced with other contents than the log holds`);
    }
    await objects.put(key, made.file);
    hit("after-file");
    return last + 1;
  };

  return async (batch, heartbeat) => {
    const { topic, partition, messages } = batch;
    const place = `${topic}/${partition}`;
    const first = messages[0]!;
    let next = expected.get(place) === first.offset ? first.offset : await endOfStored(batch, first);
    expected.delete(place);
    await storeSchemas(messages);
    for (;;) {
      const left = messages.filter(({ offset }) => offset >= next);
      if (left.length === 0) break;
      await heartbeat();
      const end = await storeFile(batch, left);
      if (end === next) return next;
      next = end;
    }
    // A file of another member may reach beyond this batch: then its end is looked for.
    if (next === messages.at(-1)!.offset + 1) expected.set(place, next);
    return next;
  };
};

/** Null when the archive does not hold it; what the registry forgot can be read from here. */
export const archivedSchema = async (objects: Objects, schemaId: number): Promise<object | null> => {
  try {
    return JSON.parse(String(await objects.get(schemaKey(schemaId)))) as object;
  } catch (error) {
    if (error instanceof ObjectMissing) return null;
    throw error;
  }
};

// The files of a spool: the segments that an earlier process left, and how segments are read and
// written.
import { type FileHandle, open, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import {
  claimedAt,
  headFrame,
  payloadAt,
  readHead,
  recordsFrom,
  type Schemas,
  type SpoolRecord,
  sizeOf,
} from "./spool-format.ts";
import type { Mark, Place } from "./spool-mark.ts";

export interface Segment {
  readonly number: number;
  readonly path: string;
  readonly schemas: Schemas;
  readonly handle: FileHandle;
  /** The offset of its first record. */
  readonly start: number;
  /** The offset behind its last synced record. */
  end: number;
}
interface SegmentContents {
  readonly segment: Segment;
  /** At least one. */
  readonly records: readonly SpoolRecord[];
  readonly bytes: number;
}
/** Called with the bytes that a crash left half written; none of them was ever acknowledged. */
export type OnTorn = (torn: { readonly segment: string; readonly bytes: number }) => void;

/** About one send of the producer. */
const ROUND_BYTES = 1024 * 1024;

/**
 * Returns the segments behind the mark, oldest first. Drained segments are deleted, and a torn tail
 * is cut.
 */
export const segmentsIn = async (
  folder: string,
  reached: Place,
  onTorn: OnTorn | undefined,
): Promise<readonly SegmentContents[]> => {
  const kept: SegmentContents[] = [];
  try {
    for (const name of (await readdir(folder)).filter((one) => /^\d{12}\.spool$/.test(one)).sort()) {
      const found = await segmentAt(folder, name, reached, onTorn);
      if (found !== undefined) kept.push(found);
    }
    return kept;
  } catch (error) {
    // The caller tries again, so open files would add up.
    for (const { segment } of kept) await segment.handle.close().catch(() => undefined);
    throw error;
  }
};

/** Undefined, and the file is deleted, if it has no record that counts. */
const segmentAt = async (
  folder: string,
  name: string,
  { segment: reached, offset }: Place,
  onTorn: OnTorn | undefined,
): Promise<SegmentContents | undefined> => {
  const path = join(folder, name);
  const number = Number(name.slice(0, 12));
  const handle = await open(path, "r+");
  try {
    const bytes = number < reached ? Buffer.alloc(0) : await handle.readFile();
    const head = payloadAt(bytes, 0);
    const start = head === null ? 0 : sizeOf(head);
    const from = number === reached ? offset : start;
    const { records, end } = head === null ? { records: [], end: 0 } : recordsFrom(bytes, from);
    if (bytes.length > end) onTorn?.({ segment: name, bytes: bytes.length - end });
    if (head === null || records.length === 0) {
      await handle.close();
      await rm(path, { force: true });
      return undefined;
    }
    if (bytes.length > end) await handle.truncate(end);
    return { segment: { number, path, schemas: readHead(head), handle, start, end }, records, bytes: end - from };
  } catch (error) {
    await handle.close().catch(() => undefined);
    throw error;
  }
};

/** Bytes of a segment that begin with a record, and the offset of that record. */
export interface OldestBytes {
  readonly segment: Segment;
  readonly bytes: Buffer;
  readonly from: number;
}

interface SegmentSettings {
  readonly folder: string;
  readonly schemas: Schemas;
  readonly segmentBytes: number;
  readonly mark: Pick<Mark, "at">;
}

/** The segments of a spool, oldest first. Only one that this process has begun is written to. */
export class Segments {
  readonly #settings: SegmentSettings;
  readonly #all: Segment[] = [];
  #next: number;
  /** The segment that this process writes. Segments of an earlier process are only read. */
  #active: Segment | undefined;

  constructor(found: readonly Segment[], settings: SegmentSettings) {
    this.#all.push(...found);
    this.#settings = settings;
    this.#next = Math.max(settings.mark.at().segment, found.at(-1)?.number ?? 0) + 1;
  }

  get isEmpty(): boolean {
    return this.#all.length === 0;
  }

  /** The segment to append to; a full one is followed by another. */
  async writable(): Promise<Segment> {
    const active = this.#active;
    return active === undefined || active.end >= this.#settings.segmentBytes ? await this.#begin() : active;
  }

  /** Stops writing into the active segment; its synced records stay to be drained. */
  async abandon(): Promise<void> {
    const segment = this.#active;
    this.#active = undefined;
    if (segment === undefined) return;
    await segment.handle.truncate(segment.end).catch(() => undefined);
    if (segment.end > segment.start || this.#all.at(-1) !== segment) return;
    this.#all.pop();
    await segment.handle.close().catch(() => undefined);
    await rm(segment.path, { force: true }).catch(() => undefined);
  }

  /**
   * Returns some of the oldest records of the first segment that has any. Deletes drained segments
   * before it, but not the one that is being written.
   */
  async oldest(isWriting: () => boolean): Promise<OldestBytes | undefined> {
    const { mark } = this.#settings;
    for (let segment = this.#all[0]; segment !== undefined; segment = this.#all[0]) {
      const from = mark.at().segment === segment.number ? mark.at().offset : segment.start;
      if (from < segment.end) return { segment, bytes: await readSome(segment, from), from };
      if (segment === this.#active && isWriting()) return undefined;
      await this.#forget(segment);
    }
    return undefined;
  }

  async close(): Promise<void> {
    for (const { handle } of this.#all) await handle.close();
  }

  async #begin(): Promise<Segment> {
    const { folder, schemas } = this.#settings;
    const path = join(folder, `${String(this.#next).padStart(12, "0")}.spool`);
    const handle = await open(path, "wx+", 0o600);
    try {
      const head = headFrame(schemas);
      await writeAll(handle, head, 0);
      await handle.datasync();
      await syncFolder(folder);
      const begun = { number: this.#next, path, schemas, handle, start: head.length, end: head.length };
      this.#active = begun;
      this.#next += 1;
      this.#all.push(begun);
      return begun;
    } catch (error) {
      await handle.close().catch(() => undefined);
      await rm(path, { force: true }).catch(() => undefined);
      throw error;
    }
  }

  async #forget(segment: Segment): Promise<void> {
    this.#all.shift();
    if (segment === this.#active) this.#active = undefined;
    await segment.handle.close();
    await rm(segment.path, { force: true });
  }
}

/** Reads about a round of records from an offset, and at least one whole record. */
const readSome = async ({ handle, end }: Segment, from: number): Promise<Buffer> => {
  const first = await readAt(handle, from, Math.min(ROUND_BYTES, end - from));
  const whole = Math.min(claimedAt(first, 0), end - from);
  return whole <= first.length ? first : readAt(handle, from, whole);
};

const readAt = async (handle: FileHandle, from: number, length: number): Promise<Buffer> => {
  const bytes = Buffer.allocUnsafe(length);
  let at = 0;
  while (at < length) {
    const { bytesRead } = await handle.read(bytes, at, length - at, from + at);
    if (bytesRead === 0) throw new Error("a segment of the spool is shorter than it was");
    at += bytesRead;
  }
  return bytes;
};

/** A disk that is nearly full first writes a part, and reports it at the next call. */
export const writeAll = async (handle: FileHandle, bytes: Buffer, from: number): Promise<void> => {
  for (let at = 0; at < bytes.length; )
    at += (await handle.write(bytes, at, bytes.length - at, from + at)).bytesWritten;
};

/** Makes the entry of a new file durable, as the sync of the file made its content durable. */
const syncFolder = async (folder: string): Promise<void> => {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
};

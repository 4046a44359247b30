// The files of a spool: what an earlier process left in its folder, and how they are read and
// written.
import { type FileHandle, open, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { claimedAt, payloadAt, readHead, recordsFrom, type Schemas, type SpoolRecord, sizeOf } from "./spool-format.ts";
import type { Place } from "./spool-mark.ts";

export interface Segment {
  readonly number: number;
  readonly path: string;
  readonly schemas: Schemas;
  readonly handle: FileHandle;
  /** Where its first record begins. */
  readonly start: number;
  /** Behind it nothing is synced, or counts. */
  end: number;
}
interface SegmentContents {
  readonly segment: Segment;
  /** At least one. */
  readonly records: readonly SpoolRecord[];
  readonly bytes: number;
}
/** Hears of the bytes that a crash left half written; none of them was ever acknowledged. */
export type OnTorn = (torn: { readonly segment: string; readonly bytes: number }) => void;

/** One send of the producer. */
const ROUND_BYTES = 1024 * 1024;

/**
 * What stands in a folder behind its mark, the oldest first; what was drained already is deleted, a
 * torn tail is cut.
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
    // The caller tries again: what is left open would add up.
    for (const { segment } of kept) await segment.handle.close().catch(() => undefined);
    throw error;
  }
};

/** Undefined, and the file deleted, when nothing of it counts. */
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

/** About a round of records from a place on, and at least one whole. */
export const readSome = async ({ handle, end }: Segment, from: number): Promise<Buffer> => {
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

/** A disk that is nearly full takes a part first and says so at the next call. */
export const writeAll = async (handle: FileHandle, bytes: Buffer, from: number): Promise<void> => {
  for (let at = 0; at < bytes.length; )
    at += (await handle.write(bytes, at, bytes.length - at, from + at)).bytesWritten;
};

/** Makes the entry of a new file last, as the sync of the file made its content last. */
export const syncFolder = async (folder: string): Promise<void> => {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
};

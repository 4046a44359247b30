// Messages that wait on the local disk until the log can be reached: appended and synced, drained
// in their order, each confirmed when it is safe.
import { mkdir, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { hit } from "#failpoint";
import type { UnixMs } from "../../stream/flow.ts";
import type { OutputMessage } from "../../stream/messages.ts";
import { lockFile } from "../runtime/lock.ts";
import { type OnTorn, readSome, type Segment, segmentsIn, syncFolder, writeAll } from "./spool-files.ts";
import { firstWithin, headFrame, payloadAt, readRecord, recordFrame, type Schemas, sizeOf } from "./spool-format.ts";
import { type Mark, openMark } from "./spool-mark.ts";

export interface SpoolSettings {
  /** Belongs to one stable name and one live process; made when it is missing. */
  readonly folder: string;
  /**
   * Written into each segment, so that what was stored under them can be sent years of releases
   * later.
   */
  readonly schemas: Schemas;
  readonly maxBytes?: number;
  readonly maxMessages?: number;
  readonly segmentBytes?: number;
  readonly now?: () => UnixMs;
  readonly onTorn?: OnTorn;
  /**
   * Called when the disk did not take the mark: after a crash what was drained since then is sent
   * again.
   */
  readonly onUnmarked?: (error: unknown) => void;
}

interface SpoolState {
  readonly messages: number;
  readonly bytes: number;
  readonly byLabel: Readonly<Record<string, number>>;
  /** When the oldest message was stored, or one shortly before it. Undefined when there is none. */
  readonly oldestAt: UnixMs | undefined;
  /** The share of its bounds that is used, 0 to 1. */
  readonly fill: number;
  /** Syncs of the disk so far: appends that come together share one. */
  readonly syncs: number;
}

export interface Spool {
  /**
   * Resolves once the messages are on the disk for good, all of them. Throws SpoolFull, or what the
   * disk says; then none of them counts as stored.
   */
  readonly append: (messages: readonly OutputMessage[], label: string) => Promise<void>;
  /**
   * Gives the oldest records to `send`, and forgets them once it has resolved: about ROUND messages
   * a call. Resolves with how many there were; 0 when nothing is there yet that is synced. What
   * `send` throws is thrown on, and nothing is forgotten. One call at a time.
   */
  readonly drain: (send: (messages: readonly OutputMessage[], schemas: Schemas) => Promise<void>) => Promise<number>;
  readonly state: () => SpoolState;
  /** Waits for the append under way and gives the folder back; what is stored stays. */
  readonly close: () => Promise<void>;
}

/** Its bounds are reached: nothing of the call was stored. */
export class SpoolFull extends Error {
  readonly verdict = "transient";
  constructor() {
    super("the spool is full");
    this.name = "SpoolFull";
  }
}

// An event takes about 500 bytes here: two minutes at a million events a minute, a day and a half
// at 30 events a second.
const MAX_BYTES = 2 * 1024 * 1024 * 1024;
const MAX_MESSAGES = 4_000_000;
// A drained segment is deleted whole, so this much of the disk may be held without need.
const SEGMENT_BYTES = 16 * 1024 * 1024;
// What one write and one sync take at most, unless one record is larger.
const GROUP_BYTES = 4 * 1024 * 1024;
/** One send of the producer. */
const ROUND = 1_000;

interface QueuedFrame {
  readonly frame: Buffer;
  readonly count: number;
  readonly label: string;
  readonly at: UnixMs;
  readonly settle: (error?: unknown) => void;
}

/**
 * Order of durable effects: an append is written, then synced, then acknowledged; a drained record
 * is sent, then marked and the mark synced; a segment is deleted after the mark has passed it.
 * Killed after sending and before the mark: sent again, the same bytes. Throws Held when another
 * process has the folder.
 *
 * Known gap: of a record that the disk changed afterwards only the checksum knows; it and what lies
 * behind it in its segment are cut like a torn tail.
 */
export const openSpool = async (settings: SpoolSettings): Promise<Spool> => {
  const {
    folder,
    schemas,
    maxBytes = MAX_BYTES,
    maxMessages = MAX_MESSAGES,
    segmentBytes = SEGMENT_BYTES,
    now = Date.now,
  } = settings;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const unlock = lockFile(join(folder, "lock.json"));
  const held = { messages: 0, bytes: 0, oldestAt: undefined as UnixMs | undefined, labels: new Map<string, number>() };
  const count = (label: string, messages: number, bytes: number): void => {
    held.messages += messages;
    held.bytes += bytes;
    const left = (held.labels.get(label) ?? 0) + messages;
    if (left === 0) held.labels.delete(label);
    else held.labels.set(label, left);
  };
  const segments: Segment[] = [];
  let opening: Mark | undefined;
  try {
    opening = await openMark(join(folder, "mark"));
    for (const { segment, records, bytes } of await segmentsIn(folder, opening.at(), settings.onTorn)) {
      segments.push(segment);
      held.oldestAt ??= records[0]!.at;
      held.bytes += bytes;
      for (const { label, messages } of records) count(label, messages.length, 0);
    }
  } catch (error) {
    await opening?.close().catch(() => undefined);
    unlock();
    throw error;
  }
  const mark = opening;
  let next = Math.max(mark.at().segment, segments.at(-1)?.number ?? 0) + 1;
  /** Written to by this process; what an earlier one wrote is only read. */
  let active: Segment | undefined;
  const queue: QueuedFrame[] = [];
  let writing: Promise<void> | undefined;
  let syncs = 0;
  let isClosed = false;

  const begin = async (): Promise<Segment> => {
    const path = join(folder, `${String(next).padStart(12, "0")}.spool`);
    const handle = await open(path, "wx+", 0o600);
    try {
      const head = headFrame(schemas);
      await writeAll(handle, head, 0);
      await handle.datasync();
      await syncFolder(folder);
      active = { number: next, path, schemas, handle, start: head.length, end: head.length };
      next += 1;
      segments.push(active);
      return active;
    } catch (error) {
      await handle.close().catch(() => undefined);
      await rm(path, { force: true }).catch(() => undefined);
      throw error;
    }
  };

  /** Nothing more is written into it; what is synced stays to be drained. */
  const abandon = async (segment: Segment | undefined): Promise<void> => {
    active = undefined;
    if (segment === undefined) return;
    await segment.handle.truncate(segment.end).catch(() => undefined);
    if (segment.end > segment.start || segments.at(-1) !== segment) return;
    segments.pop();
    await segment.handle.close().catch(() => undefined);
    await rm(segment.path, { force: true }).catch(() => undefined);
  };

  const writeGroup = async (group: readonly QueuedFrame[]): Promise<void> => {
    try {
      const segment = active === undefined || active.end >= segmentBytes ? await begin() : active;
      const bytes = group.length === 1 ? group[0]!.frame : Buffer.concat(group.map(({ frame }) => frame));
      await writeAll(segment.handle, bytes, segment.end);
      hit("spool-after-write");
      await segment.handle.datasync();
      hit("spool-after-sync");
      syncs += 1;
      held.oldestAt ??= group[0]!.at;
      segment.end += bytes.length;
      for (const { settle } of group) settle();
    } catch (error) {
      // Nothing is ever written behind what may be torn, or what a failed sync may have lost: the
      // next append begins a segment.
      await abandon(active);
      for (const { frame, count: messages, label, settle } of group) {
        count(label, -messages, -frame.length);
        settle(error);
      }
    }
  };
  const write = async (): Promise<void> => {
    // After this turn of the loop, so that appends which arrived together share one sync.
    await new Promise(setImmediate);
    while (queue.length > 0) {
      await writeGroup(queue.splice(0, firstWithin(queue, GROUP_BYTES)));
    }
    writing = undefined;
  };

  const forget = async (segment: Segment): Promise<void> => {
    segments.shift();
    if (segment === active) active = undefined;
    await segment.handle.close();
    await rm(segment.path, { force: true });
  };
  /** Some of the oldest records of the first segment that has any. */
  const oldest = async (): Promise<
    { readonly segment: Segment; readonly bytes: Buffer; readonly from: number } | undefined
  > => {
    for (let segment = segments[0]; segment !== undefined; segment = segments[0]) {
      const from = mark.at().segment === segment.number ? mark.at().offset : segment.start;
      if (from < segment.end) return { segment, bytes: await readSome(segment, from), from };
      if (segment === active && writing !== undefined) return undefined;
      await forget(segment);
    }
    held.oldestAt = undefined;
    return undefined;
  };

  return {
    append: (messages, label) => {
      if (isClosed) return Promise.reject(new Error("the spool is closed"));
      if (messages.length === 0) return Promise.resolve();
      const at = now();
      const frame = recordFrame({ at, label, messages });
      if (held.messages + messages.length > maxMessages || held.bytes + frame.length > maxBytes)
        return Promise.reject(new SpoolFull());
      count(label, messages.length, frame.length);
      return new Promise((resolve, reject) => {
        queue.push({
          frame,
          count: messages.length,
          label,
          at,
          settle: (error) => (error === undefined ? resolve() : reject(error)),
        });
        writing ??= write();
      });
    },
    drain: async (send) => {
      const some = await oldest();
      if (some === undefined) return 0;
      const { segment, bytes, from } = some;
      const records = [];
      const messages: OutputMessage[] = [];
      let end = 0;
      for (
        let payload = payloadAt(bytes, 0);
        payload !== null && messages.length < ROUND;
        payload = payloadAt(bytes, end)
      ) {
        const record = readRecord(payload);
        records.push({ record, size: sizeOf(payload) });
        messages.push(...record.messages);
        end += sizeOf(payload);
      }
      if (records.length === 0) throw new Error(`${segment.path} cannot be read at ${from}`);
      await send(messages, segment.schemas);
      hit("drain-after-send");
      await mark.move({ segment: segment.number, offset: from + end }).catch((error) => settings.onUnmarked?.(error));
      for (const { record, size } of records) count(record.label, -record.messages.length, -size);
      held.oldestAt = held.messages === 0 ? undefined : records.at(-1)!.record.at;
      // Nothing is left and nothing is on its way: the last segment goes too.
      if (held.messages === 0) await oldest();
      return messages.length;
    },
    state: () => ({
      messages: held.messages,
      bytes: held.bytes,
      byLabel: Object.fromEntries(held.labels),
      oldestAt: held.oldestAt,
      fill: Math.max(held.messages / maxMessages, held.bytes / maxBytes),
      syncs,
    }),
    close: async () => {
      isClosed = true;
      await writing;
      for (const { handle } of segments) await handle.close();
      await mark.close();
      unlock();
    },
  };
};

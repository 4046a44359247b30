// Messages that wait on the local disk until the log is reachable: they are appended and synced,
// and drained in their order.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { hit } from "#failpoint";
import type { UnixMs } from "../../stream/flow.ts";
import type { OutputMessage } from "../../stream/messages.ts";
import { lockFile } from "../runtime/lock.ts";
import { type OldestBytes, type OnTorn, Segments, segmentsIn, writeAll } from "./spool-files.ts";
import {
  firstWithin,
  payloadAt,
  readRecord,
  recordFrame,
  type Schemas,
  type SpoolRecord,
  sizeOf,
} from "./spool-format.ts";
import { type Mark, openMark } from "./spool-mark.ts";

export interface SpoolSettings {
  /** Belongs to one stable name and one live process; it is made if it is missing. */
  readonly folder: string;
  /**
   * Schemas that are written into each segment, so that later releases can still send the values
   * stored with them.
   */
  readonly schemas: Schemas;
  readonly maxBytes?: number;
  readonly maxMessages?: number;
  readonly segmentBytes?: number;
  readonly now?: () => UnixMs;
  readonly onTorn?: OnTorn;
  /**
   * Called when the disk did not store the mark: after a crash, messages that were drained since
   * then are sent again.
   */
  readonly onUnmarked?: (error: unknown) => void;
}

interface SpoolState {
  readonly messages: number;
  readonly bytes: number;
  readonly byLabel: Readonly<Record<string, number>>;
  /**
   * When the oldest message was stored, or a moment shortly before. Undefined if there is none.
   */
  readonly oldestAt: UnixMs | undefined;
  /** The used share of its bounds, 0 to 1. */
  readonly fill: number;
  /** Syncs of the disk so far; concurrent appends share one. */
  readonly syncs: number;
}

export interface Spool {
  /**
   * Resolves once all messages are durable on the disk. Throws SpoolFull, or the error of the disk;
   * then none of them counts as stored.
   */
  readonly append: (messages: readonly OutputMessage[], label: string) => Promise<void>;
  /**
   * Passes the oldest records to `send`, about ROUND messages a call, and forgets them once it has
   * resolved. Resolves with the number of messages; 0 if no synced record is there yet. An error of
   * `send` is thrown on, and nothing is forgotten. One call at a time.
   */
  readonly drain: (send: (messages: readonly OutputMessage[], schemas: Schemas) => Promise<void>) => Promise<number>;
  readonly state: () => SpoolState;
  /** Waits for the append under way and releases the folder; stored messages stay. */
  readonly close: () => Promise<void>;
}

/** The bounds are reached: nothing of the call was stored. */
export class SpoolFull extends Error {
  readonly verdict = "transient";
  constructor() {
    super("the spool is full");
    this.name = "SpoolFull";
  }
}

// An event takes about 500 bytes here: this is two minutes at a million events a minute, or a day
// and a half at 30 events a second.
const MAX_BYTES = 2 * 1024 * 1024 * 1024;
const MAX_MESSAGES = 4_000_000;
// A drained segment is deleted as a whole, so this much of the disk may be held without need.
const SEGMENT_BYTES = 16 * 1024 * 1024;
// The most bytes of one write and one sync, unless one record is larger.
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
 * The order of durable effects: an append is written, then synced, then acknowledged; a drained
 * record is sent, then marked and the mark synced; a segment is deleted after the mark has passed
 * it. After a crash between the send and the mark, the same bytes are sent again. Throws LockHeld
 * when another process has the folder.
 *
 * Known gap: a record that the disk changed afterwards is only recognised by its checksum; it and
 * all records behind it in its segment are cut like a torn tail.
 */
export const openSpool = async (settings: SpoolSettings): Promise<Spool> => {
  const { maxBytes = MAX_BYTES, maxMessages = MAX_MESSAGES, now = Date.now } = settings;
  const held = new HeldMessages();
  const { mark, segments, unlock } = await openFolder(settings, held);
  const appends = new Appends(segments, held);
  let isClosed = false;
  const oldest = async () => {
    const some = await segments.oldest(() => appends.isWriting);
    if (some === undefined && segments.isEmpty) held.oldestAt = undefined;
    return some;
  };

  return {
    append: (messages, label) => {
      if (isClosed) return Promise.reject(new Error("the spool is closed"));
      if (messages.length === 0) return Promise.resolve();
      const at = now();
      const frame = recordFrame({ at, label, messages });
      if (held.messages + messages.length > maxMessages || held.bytes + frame.length > maxBytes)
        return Promise.reject(new SpoolFull());
      held.count(label, messages.length, frame.length);
      return appends.add({ frame, count: messages.length, label, at });
    },
    drain: async (send) => {
      const some = await oldest();
      if (some === undefined) return 0;
      const { segment, records, messages, end } = roundIn(some);
      await send(messages, segment.schemas);
      hit("drain-after-send");
      await mark.move({ segment: segment.number, offset: end }).catch((error) => settings.onUnmarked?.(error));
      held.forget(records);
      // Nothing is left and nothing is under way, so the last segment is deleted too.
      if (held.messages === 0) await oldest();
      return messages.length;
    },
    state: () => {
      const { messages, bytes, labels, oldestAt } = held;
      const fill = Math.max(messages / maxMessages, bytes / maxBytes);
      return { messages, bytes, byLabel: Object.fromEntries(labels), oldestAt, fill, syncs: appends.syncs };
    },
    close: async () => {
      isClosed = true;
      await appends.done();
      await segments.close();
      await mark.close();
      unlock();
    },
  };
};

/** The messages that wait, counted when they are taken and given back when they are sent. */
class HeldMessages {
  messages = 0;
  bytes = 0;
  oldestAt: UnixMs | undefined;
  readonly labels = new Map<string, number>();

  count(label: string, messages: number, bytes: number): void {
    this.messages += messages;
    this.bytes += bytes;
    const left = (this.labels.get(label) ?? 0) + messages;
    if (left === 0) this.labels.delete(label);
    else this.labels.set(label, left);
  }

  /** Removes the records of a round from the counts once they were sent. */
  forget(records: readonly SizedRecord[]): void {
    for (const { record, size } of records) this.count(record.label, -record.messages.length, -size);
    this.oldestAt = this.messages === 0 ? undefined : records.at(-1)!.record.at;
  }
}

/**
 * Takes the folder for this process, opens its mark and its segments, and counts the messages that
 * wait in them.
 */
const openFolder = async (
  { folder, schemas, segmentBytes = SEGMENT_BYTES, onTorn }: SpoolSettings,
  held: HeldMessages,
): Promise<{ readonly mark: Mark; readonly segments: Segments; readonly unlock: () => void }> => {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const unlock = lockFile(join(folder, "lock.json"));
  let mark: Mark | undefined;
  try {
    mark = await openMark(join(folder, "mark"));
    const found = await segmentsIn(folder, mark.at(), onTorn);
    for (const { records, bytes } of found) {
      held.oldestAt ??= records[0]!.at;
      held.bytes += bytes;
      for (const { label, messages } of records) held.count(label, messages.length, 0);
    }
    const segments = found.map(({ segment }) => segment);
    return { mark, segments: new Segments(segments, { folder, schemas, segmentBytes, mark }), unlock };
  } catch (error) {
    await mark?.close().catch(() => undefined);
    unlock();
    throw error;
  }
};

/** Writes the queued appends; concurrent ones share one sync. */
class Appends {
  /** Syncs of the disk so far. */
  syncs = 0;
  readonly #segments: Segments;
  readonly #held: HeldMessages;
  readonly #queue: QueuedFrame[] = [];
  #writing: Promise<void> | undefined;

  constructor(segments: Segments, held: HeldMessages) {
    this.#segments = segments;
    this.#held = held;
  }

  get isWriting(): boolean {
    return this.#writing !== undefined;
  }

  /** Resolves once the frame is on the disk for good. */
  add(frame: Omit<QueuedFrame, "settle">): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ ...frame, settle: (error) => (error === undefined ? resolve() : reject(error)) });
      this.#writing ??= this.#write();
    });
  }

  /** Waits for the appends under way. */
  async done(): Promise<void> {
    await this.#writing;
  }

  async #write(): Promise<void> {
    // Waits until this turn of the loop has ended, so that appends which arrived together share one
    // sync.
    await new Promise(setImmediate);
    while (this.#queue.length > 0) {
      await this.#writeGroup(this.#queue.splice(0, firstWithin(this.#queue, GROUP_BYTES)));
    }
    this.#writing = undefined;
  }

  async #writeGroup(group: readonly QueuedFrame[]): Promise<void> {
    try {
      const segment = await this.#segments.writable();
      const bytes = group.length === 1 ? group[0]!.frame : Buffer.concat(group.map(({ frame }) => frame));
      await writeAll(segment.handle, bytes, segment.end);
      hit("spool-after-write");
      await segment.handle.datasync();
      hit("spool-after-sync");
      this.syncs += 1;
      this.#held.oldestAt ??= group[0]!.at;
      segment.end += bytes.length;
      for (const { settle } of group) settle();
    } catch (error) {
      // Nothing is ever written behind bytes that may be torn, or that a failed sync may have lost:
      // the next append begins a new segment.
      await this.#segments.abandon();
      for (const { frame, count, label, settle } of group) {
        this.#held.count(label, -count, -frame.length);
        settle(error);
      }
    }
  }
}

interface SizedRecord {
  readonly record: SpoolRecord;
  readonly size: number;
}

/** The records that begin at `from`, about ROUND messages, and the offset where they end. */
const roundIn = ({ segment, bytes, from }: OldestBytes) => {
  const records: SizedRecord[] = [];
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
  return { segment, records, messages, end: from + end };
};

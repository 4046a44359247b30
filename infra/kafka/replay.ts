// Reads windows of topics and leaves no trace: no lasting group, no committed offset.
import { randomUUID } from "node:crypto";
import type { FetchedBatch, InputMessage } from "../../stream/messages.ts";
import { isSettling } from "../runtime/errors.ts";
import { retry } from "../runtime/timing/retry.ts";
import type { Admin } from "./admin.ts";
import type { ClientBatch, ClientConsumer } from "./client/types.ts";
import { type FetchSettings, messagesOf } from "./fetch-settings.ts";

// The client retries all other errors for the same time.
const SETTLING_MS = 10_000;

type Offsets = ReadonlyMap<string, ReadonlyMap<number, number>>;

export interface ReplaySettings {
  readonly topics: readonly string[];
  /**
   * The first offset to read of each partition; other partitions are read from their beginning.
   */
  readonly from?: Offsets;
  /** The offset to end before; other partitions are read to their end. */
  readonly until?: Offsets;
  /** Selects the partitions to read; defaults to all of them. */
  readonly only?: (topic: string, partition: number) => boolean;
  /** Continues with the records that come after the end, until the signal fires. */
  readonly isFollowing?: boolean;
  /**
   * Batches of one partition come in order; partitions interleave. Work that takes longer than a
   * few seconds must call `heartbeat`. An error that it throws ends the replay.
   */
  readonly onBatch: (batch: FetchedBatch, heartbeat: () => Promise<void>) => Promise<void> | void;
  readonly fetch?: FetchSettings;
  /**
   * Batches of this many partitions are handed over without waiting for each other; defaults to 1.
   */
  readonly partitionsAtOnce?: number;
  readonly signal?: AbortSignal;
}

export interface LogReplay {
  /**
   * Reads topics from their beginning (or given offsets) to the end that they have now, without a
   * lasting group.
   */
  readonly replay: (settings: ReplaySettings) => Promise<void>;
}

export interface Sources {
  readonly admin: () => Promise<Admin>;
  readonly consumer: (groupId: string) => ClientConsumer;
  readonly prefix: string;
}

/** Offsets of a partition from `start` up to `end`. */
export interface Window {
  readonly topic: string;
  readonly partition: number;
  readonly start: number;
  readonly end: number;
}

/** The windows to read, and the partitions of the same topics that have no window. */
export interface Windows {
  /** The windows of one partition in the order of their offsets. */
  readonly read: readonly Window[];
  readonly idle: readonly Pick<Window, "topic" | "partition">[];
}

/**
 * Resolves when every record that was in the topics at the time of the call has been handed over.
 * Rejects with the first error.
 */
export const replay = (sources: Sources, settings: ReplaySettings): Promise<void> => {
  const { topics, from, until, only, isFollowing = false } = settings;
  const rangesOf = async (admin: Admin, topic: string): Promise<readonly Window[]> =>
    (await admin.watermarks(topic)).map(({ partition, low, high }) => ({
      topic,
      partition,
      start: Math.max(low, from?.get(topic)?.get(partition) ?? low),
      end: Math.min(high, until?.get(topic)?.get(partition) ?? high),
    }));
  const isRead = ({ topic, partition, start, end }: Window) =>
    (only?.(topic, partition) ?? true) && (isFollowing || start < end);
  return readWindows(sources, settings, async (admin) => {
    const all = (await Promise.all(topics.map((topic) => rangesOf(admin, topic)))).flat();
    const read = all.filter(isRead);
    return {
      read: isFollowing ? read.map((range) => ({ ...range, end: Number.POSITIVE_INFINITY })) : read,
      idle: all.filter((range) => !isRead(range)),
    };
  });
};

type ReadSettings = Pick<ReplaySettings, "onBatch" | "partitionsAtOnce" | "signal">;

/** Hands over the records in the windows. Rejects with the first error. */
export const readWindows = async (
  sources: Sources,
  settings: ReadSettings,
  windowsOf: (admin: Admin) => Promise<Windows>,
): Promise<void> => {
  const admin = await sources.admin();
  try {
    const windows = await windowsOf(admin);
    if (windows.read.length === 0) return;
    let hasBegun = false;
    const onBatch: ReplaySettings["onBatch"] = (...batch) => {
      hasBegun = true;
      return settings.onBatch(...batch);
    };
    const readOnce = async (): Promise<void> => {
      // A group of its own shares nothing with other members, and must leave nothing behind.
      const groupId = `replay-${randomUUID()}`;
      const client = sources.consumer(groupId);
      try {
        await readThrough(client, sources.prefix, windows, { ...settings, onBatch });
      } finally {
        await client.disconnect();
        await admin.deleteGroups([groupId]).catch(() => undefined);
      }
    };
    // A record must not be handed over twice, so only a reading that has handed over nothing is
    // tried again.
    await retry(readOnce, {
      deadlineMs: SETTLING_MS,
      isTransient: (error) => !hasBegun && isSettling(error),
      ...(settings.signal && { signal: settings.signal }),
    });
  } finally {
    await admin.close();
  }
};

const readThrough = (
  client: ClientConsumer,
  prefix: string,
  { read, idle }: Windows,
  settings: ReadSettings,
): Promise<void> => {
  const { signal, partitionsAtOnce = 1 } = settings;
  const topics = [...new Set(read.map(({ topic }) => prefix + topic))];
  return new Promise<void>((resolve, reject) => {
    const abort = () => reject(signal?.reason ?? new Error("aborted"));
    if (signal?.aborted) return abort();
    signal?.addEventListener("abort", abort, { once: true });
    const left = leftOf(prefix, read);
    const eachBatch = async (given: ClientBatch): Promise<void> => {
      try {
        await takeBatch(client, prefix, left, given, settings);
      } catch (error) {
        reject(error);
        throw Object.assign(new Error("the replay has ended", { cause: error }), { retriable: false });
      }
      if (left.size === 0) resolve();
    };
    client.on(client.events.CRASH, ({ payload }) => reject(payload.error));
    client
      .connect()
      .then(() => client.subscribe({ topics, fromBeginning: true }))
      .then(() =>
        client.run({
          autoCommit: false,
          eachBatchAutoResolve: false,
          partitionsConsumedConcurrently: partitionsAtOnce,
          eachBatch,
        }),
      )
      .then(() => {
        for (const [{ topic, partition, start }] of leftOf(prefix, read).values())
          client.seek({ topic: prefix + topic, partition, offset: String(start) });
        // All partitions of a topic are assigned; those that are not read need not be fetched.
        const paused = idle.filter(({ topic }) => topics.includes(prefix + topic));
        client.pause(paused.map(({ topic, partition }) => ({ topic: prefix + topic, partitions: [partition] })));
      })
      .catch(reject);
  });
};

/** Windows not yet read to their end, by partition; none of them is empty. */
type WindowsLeft = Map<string, [Window, ...Window[]]>;

const leftOf = (prefix: string, read: readonly Window[]): WindowsLeft => {
  const left: WindowsLeft = new Map();
  for (const window of read) {
    const place = `${prefix}${window.topic}-${window.partition}`;
    const known = left.get(place);
    if (known === undefined) left.set(place, [window]);
    else known.push(window);
  }
  return left;
};

/** Hands over the records of a batch that are in the windows, and moves on to the next window. */
const takeBatch = async (
  client: ClientConsumer,
  prefix: string,
  left: WindowsLeft,
  { batch, resolveOffset, heartbeat }: ClientBatch,
  { onBatch }: ReadSettings,
): Promise<void> => {
  const { topic, partition } = batch;
  const place = `${topic}-${partition}`;
  const windows = left.get(place);
  // The partition is finished, or was empty at the call: later records are skipped.
  if (windows === undefined) return resolveOffset(batch.lastOffset());
  const { end } = windows.at(-1)!;
  const messages = within(windows, messagesOf(batch));
  const highWatermark = Number.isFinite(end) ? end : Number(batch.highWatermark);
  if (messages.length > 0)
    await onBatch({ topic: topic.slice(prefix.length), partition, messages, highWatermark }, heartbeat);
  const next = Number(batch.lastOffset()) + 1;
  resolveOffset(batch.lastOffset());
  await heartbeat();
  // Offsets that a batch has passed do not come again: compaction or a transaction marker was
  // there.
  const [window, ...more] = windows.filter(({ end }) => end > next);
  if (window === undefined) {
    left.delete(place);
    client.pause([{ topic, partitions: [partition] }]);
    return;
  }
  left.set(place, [window, ...more]);
  if (window.start > next) client.seek({ topic, partition, offset: String(window.start) });
};

/** Filters messages by windows. Both lists must be in the order of their offsets. */
const within = (windows: readonly Window[], messages: readonly InputMessage[]): readonly InputMessage[] => {
  let n = 0;
  return messages.filter(({ offset }) => {
    while (n < windows.length && offset >= windows[n]!.end) n++;
    return n < windows.length && offset >= windows[n]!.start;
  });
};

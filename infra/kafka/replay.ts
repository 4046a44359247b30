// Reads topics from a position to the end that they have now, and leaves no trace: no lasting
// group, no committed offset.
import { randomUUID } from "node:crypto";
import type { UnixMs } from "../../stream/flow.ts";
import { isSettling } from "../runtime/errors.ts";
import { retry } from "../runtime/retry.ts";
import type { Admin } from "./admin.ts";
import { type ConsumedBatch, type FetchSettings, messagesOf } from "./consumer.ts";
import type { ClientBatch, ClientConsumer } from "./kafka.ts";

// As long as the client itself tries everything else.
const SETTLING_MS = 10_000;

export interface ReplaySettings {
  readonly topics: readonly string[];
  /** The first offset to read of a partition; what is not named is read from its beginning. */
  readonly from?: ReadonlyMap<string, ReadonlyMap<number, number>>;
  /** The offset to end before; what is not named is read to its end. */
  readonly until?: ReadonlyMap<string, ReadonlyMap<number, number>>;
  /** Which partitions are read; all of them when left out. */
  readonly only?: (topic: string, partition: number) => boolean;
  /** Goes on with what comes after the end, until the signal fires. */
  readonly isFollowing?: boolean;
  /**
   * Batches of one partition in order; partitions interleave. `appendedAt` answers when its n-th
   * message was; `heartbeat` is to be called by work that takes longer than a few seconds. What it
   * throws ends the replay.
   */
  readonly onBatch: (
    batch: ConsumedBatch,
    appendedAt: (n: number) => UnixMs,
    heartbeat: () => Promise<void>,
  ) => Promise<void> | void;
  readonly fetch?: FetchSettings;
  /**
   * Batches of so many partitions are handed over without waiting for each other; 1 when left out.
   */
  readonly partitionsAtOnce?: number;
  readonly signal?: AbortSignal;
}

interface Sources {
  readonly admin: () => Promise<Admin>;
  readonly consumer: (groupId: string) => ClientConsumer;
}

/**
 * Resolves when everything that stood in the topics at the call has been handed over. Rejects with
 * the first error.
 */
export const replay = async (sources: Sources, prefix: string, settings: ReplaySettings): Promise<void> => {
  const { topics, from, until, only, isFollowing = false } = settings;
  const admin = await sources.admin();
  try {
    const all = (
      await Promise.all(topics.map((topic) => rangesOf(admin, topic, from?.get(topic), until?.get(topic))))
    ).flat();
    const isRead = ({ topic, partition, start, end }: Range) =>
      (only?.(topic, partition) ?? true) && (isFollowing || start < end);
    const ranges = all
      .filter(isRead)
      .map((range) => (isFollowing ? { ...range, end: Number.POSITIVE_INFINITY } : range));
    if (ranges.length === 0) return;
    let hasBegun = false;
    const onBatch: ReplaySettings["onBatch"] = (...batch) => {
      hasBegun = true;
      return settings.onBatch(...batch);
    };
    const once = async (): Promise<void> => {
      // A group of its own: there is nobody to share with, and nothing may be left of it.
      const groupId = `replay-${randomUUID()}`;
      const client = sources.consumer(groupId);
      try {
        await readThrough(
          client,
          prefix,
          { ranges, idle: all.filter((range) => !isRead(range)) },
          { ...settings, onBatch },
        );
      } finally {
        await client.disconnect();
        await admin.deleteGroups([groupId]).catch(() => undefined);
      }
    };
    // What has been handed over is not handed over twice, so only the beginning is tried again.
    await retry(once, {
      deadlineMs: SETTLING_MS,
      isTransient: (error) => !hasBegun && isSettling(error),
      ...(settings.signal && { signal: settings.signal }),
    });
  } finally {
    await admin.close();
  }
};

interface Range {
  readonly topic: string;
  readonly partition: number;
  readonly start: number;
  readonly end: number;
}

type Offsets = ReadonlyMap<number, number> | undefined;

const rangesOf = async (admin: Admin, topic: string, from: Offsets, until: Offsets): Promise<readonly Range[]> =>
  (await admin.watermarks(topic)).map(({ partition, low, high }) => ({
    topic,
    partition,
    start: Math.max(low, from?.get(partition) ?? low),
    end: Math.min(high, until?.get(partition) ?? high),
  }));

const readThrough = (
  client: ClientConsumer,
  prefix: string,
  { ranges, idle }: { readonly ranges: readonly Range[]; readonly idle: readonly Range[] },
  settings: ReplaySettings,
): Promise<void> => {
  const { onBatch, signal, partitionsAtOnce = 1 } = settings;
  const topics = [...new Set(ranges.map(({ topic }) => prefix + topic))];
  const ends = new Map(ranges.map(({ topic, partition, end }) => [`${topic}-${partition}`, end]));
  return new Promise<void>((resolve, reject) => {
    const abort = () => reject(signal?.reason ?? new Error("aborted"));
    if (signal?.aborted) return abort();
    signal?.addEventListener("abort", abort, { once: true });
    const eachBatch = async ({ batch, resolveOffset, heartbeat }: ClientBatch): Promise<void> => {
      const topic = batch.topic.slice(prefix.length);
      const place = `${topic}-${batch.partition}`;
      const end = ends.get(place);
      // Finished, or empty at the call: what has come since is passed over.
      if (end === undefined) return resolveOffset(batch.lastOffset());
      const messages = messagesOf(batch).filter(({ offset }) => offset < end);
      try {
        if (messages.length > 0)
          await onBatch(
            {
              topic,
              partition: batch.partition,
              messages,
              highWatermark: Number.isFinite(end) ? end : Number(batch.highWatermark),
              appendedAt: Number(batch.messages.at(-1)!.timestamp),
            },
            (n) => Number(batch.messages[n]!.timestamp),
            heartbeat,
          );
      } catch (error) {
        reject(error);
        throw Object.assign(new Error("the replay has ended", { cause: error }), { retriable: false });
      }
      resolveOffset(batch.lastOffset());
      await heartbeat();
      if (Number(batch.lastOffset()) + 1 >= end) ends.delete(place);
      if (ends.size === 0) resolve();
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
        for (const { topic, partition, start } of ranges)
          client.seek({ topic: prefix + topic, partition, offset: String(start) });
        // Of a topic all partitions are assigned; what is not read need not travel.
        const paused = idle.filter(({ topic }) => topics.includes(prefix + topic));
        client.pause(paused.map(({ topic, partition }) => ({ topic: prefix + topic, partitions: [partition] })));
      })
      .catch(reject);
  });
};

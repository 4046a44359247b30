// stream/replay.ts - reads topics from a position to the end that they have now, and leaves no trace: no lasting group, no committed offset.
import { randomUUID } from "node:crypto";
import type { Admin } from "./admin.ts";
import { type ConsumedBatch, type FetchSettings, messagesOf } from "./consumer.ts";
import type { ClientBatch, ClientConsumer } from "./kafka.ts";

export interface ReplaySettings {
  readonly topics: readonly string[];
  /** The first offset to read of a partition; what is not named is read from its beginning. */
  readonly from?: ReadonlyMap<string, ReadonlyMap<number, number>>;
  /** Batches of one partition in order; partitions interleave. What it throws ends the replay. */
  readonly onBatch: (batch: ConsumedBatch) => Promise<void> | void;
  readonly fetch?: FetchSettings;
  readonly signal?: AbortSignal;
}

interface Sources {
  readonly admin: () => Promise<Admin>;
  readonly consumer: (groupId: string) => ClientConsumer;
}

/** Resolves when everything that stood in the topics at the call has been handed over. Rejects with the first error. */
export const replay = async (sources: Sources, prefix: string, settings: ReplaySettings): Promise<void> => {
  const { topics, from } = settings;
  const admin = await sources.admin();
  try {
    const ranges = (await Promise.all(topics.map((topic) => rangesOf(admin, topic, from?.get(topic))))).flat();
    if (ranges.length === 0) return;
    // A group of its own: there is nobody to share with, and nothing may be left of it.
    const groupId = `replay-${randomUUID()}`;
    const client = sources.consumer(groupId);
    try {
      await readThrough(client, prefix, ranges, settings);
    } finally {
      await client.disconnect();
      await admin.deleteGroups([groupId]).catch(() => undefined);
    }
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

const rangesOf = async (admin: Admin, topic: string, from: ReadonlyMap<number, number> | undefined): Promise<readonly Range[]> =>
  (await admin.watermarks(topic))
    .map(({ partition, low, high }) => ({ topic, partition, start: Math.max(low, from?.get(partition) ?? low), end: high }))
    .filter(({ start, end }) => start < end);

const readThrough = (client: ClientConsumer, prefix: string, ranges: readonly Range[], settings: ReplaySettings): Promise<void> => {
  const { onBatch, signal } = settings;
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
          await onBatch({
            topic,
            partition: batch.partition,
            messages,
            highWatermark: end,
            appendedAt: Number(batch.messages.at(-1)!.timestamp),
          });
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
      .then(() => client.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch }))
      .then(() => {
        for (const { topic, partition, start } of ranges) client.seek({ topic: prefix + topic, partition, offset: String(start) });
      })
      .catch(reject);
  });
};

// stream/replay.ts - reads topics from a position to the end that they have now, and leaves no trace: no lasting group, no committed offset.
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
  readonly consumer: () => ClientConsumer;
}

/** Resolves when everything that stood in the topics at the call has been handed over. Rejects with the first error. */
export const replay = async (sources: Sources, prefix: string, settings: ReplaySettings): Promise<void> => {
  const { topics, from, onBatch, signal } = settings;
  const admin = await sources.admin();
  /** The offset at which each partition is finished. */
  const ends = new Map<string, number>();
  const starts: { topic: string; partition: number; offset: string }[] = [];
  try {
    for (const topic of topics)
      for (const { partition, low, high } of await admin.watermarks(topic)) {
        const start = Math.max(low, from?.get(topic)?.get(partition) ?? low);
        if (start >= high) continue;
        ends.set(`${topic}-${partition}`, high);
        starts.push({ topic: prefix + topic, partition, offset: String(start) });
      }
  } finally {
    await admin.close();
  }
  if (ends.size === 0) return;

  const client = sources.consumer();
  try {
    await new Promise<void>((resolve, reject) => {
      const abort = () => reject(signal?.reason ?? new Error("aborted"));
      if (signal?.aborted) return abort();
      signal?.addEventListener("abort", abort, { once: true });
      const eachBatch = async ({ batch, resolveOffset, heartbeat }: ClientBatch): Promise<void> => {
        const topic = batch.topic.slice(prefix.length);
        const place = `${topic}-${batch.partition}`;
        const end = ends.get(place);
        if (end === undefined) return;
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
        .then(() => client.subscribe({ topics: topics.map((topic) => prefix + topic), fromBeginning: true }))
        .then(() => client.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch }))
        .then(() => {
          for (const start of starts) client.seek(start);
        })
        .catch(reject);
    });
  } finally {
    await client.disconnect();
  }
};

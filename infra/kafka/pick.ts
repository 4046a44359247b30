// Reads single records by their place, e.g. the bytes of dead letters; leaves no trace in any
// group.
import { randomUUID } from "node:crypto";
import type { Position } from "../../stream/flow.ts";
import type { Admin } from "./admin.ts";
import { type ConsumedMessage, messagesOf } from "./consumer.ts";
import type { ClientBatch, ClientConsumer } from "./kafka.ts";

export interface PickSettings {
  readonly places: readonly Position[];
}

interface Sources {
  readonly admin: () => Promise<Admin>;
  readonly consumer: (groupId: string) => ClientConsumer;
}

export const placeOf = ({ topic, partition, offset }: Position): string => `${topic}/${partition}@${offset}`;

/**
 * By `placeOf`. A place that the log does not hold (any more) is left out. Rejects with the first
 * error.
 */
export const pick = async (
  sources: Sources,
  prefix: string,
  { places }: PickSettings,
): Promise<ReadonlyMap<string, ConsumedMessage>> => {
  const found = new Map<string, ConsumedMessage>();
  if (places.length === 0) return found;
  const admin = await sources.admin();
  try {
    const wanted = await heldOf(admin, places);
    if (wanted.size === 0) return found;
    const groupId = `pick-${randomUUID()}`;
    const client = sources.consumer(groupId);
    try {
      await readEach(client, prefix, wanted, found);
    } finally {
      await client.disconnect();
      await admin.deleteGroups([groupId]).catch(() => undefined);
    }
    return found;
  } finally {
    await admin.close();
  }
};

/** Offsets still to be read, ascending, by `topic/partition`. */
type Wanted = Map<string, { readonly topic: string; readonly partition: number; readonly offsets: number[] }>;

const heldOf = async (admin: Admin, places: readonly Position[]): Promise<Wanted> => {
  const wanted: Wanted = new Map();
  for (const topic of new Set(places.map((place) => place.topic))) {
    const marks = new Map((await admin.watermarks(topic)).map((mark) => [mark.partition, mark]));
    for (const { partition, offset } of places.filter((place) => place.topic === topic)) {
      const mark = marks.get(partition);
      if (mark === undefined || offset < mark.low || offset >= mark.high) continue;
      const key = `${topic}/${partition}`;
      const one = wanted.get(key) ?? { topic, partition, offsets: [] };
      if (!one.offsets.includes(offset)) one.offsets.push(offset);
      wanted.set(key, one);
    }
  }
  for (const { offsets } of wanted.values()) offsets.sort((a, b) => a - b);
  return wanted;
};

const readEach = (
  client: ClientConsumer,
  prefix: string,
  wanted: Wanted,
  found: Map<string, ConsumedMessage>,
): Promise<void> =>
  new Promise<void>((resolve, reject) => {
    const seek = (topic: string, partition: number, offset: number) =>
      client.seek({ topic: prefix + topic, partition, offset: String(offset) });
    const eachBatch = async ({ batch, resolveOffset, heartbeat }: ClientBatch): Promise<void> => {
      const topic = batch.topic.slice(prefix.length);
      const { partition } = batch;
      const key = `${topic}/${partition}`;
      const one = wanted.get(key);
      const last = Number(batch.lastOffset());
      if (one !== undefined) {
        const offsets = new Set(one.offsets);
        for (const message of messagesOf(batch))
          if (offsets.has(message.offset)) found.set(placeOf({ topic, partition, offset: message.offset }), message);
        // What a batch has gone past it will not show any more: compaction or a control record was
        // there.
        one.offsets.splice(0, one.offsets.findLastIndex((offset) => offset <= last) + 1);
        if (one.offsets.length === 0) wanted.delete(key);
      }
      resolveOffset(batch.lastOffset());
      await heartbeat();
      if (wanted.size === 0) return resolve();
      if (one === undefined || one.offsets.length === 0)
        client.pause([{ topic: batch.topic, partitions: [partition] }]);
      else if (one.offsets[0]! > last + 1) seek(topic, partition, one.offsets[0]!);
    };
    client.on(client.events.CRASH, ({ payload }) => reject(payload.error));
    client
      .connect()
      .then(() =>
        client.subscribe({
          topics: [...new Set([...wanted.values()].map(({ topic }) => prefix + topic))],
          fromBeginning: true,
        }),
      )
      .then(() => client.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch }))
      .then(() => {
        for (const { topic, partition, offsets } of wanted.values()) seek(topic, partition, offsets[0]!);
      })
      .catch(reject);
  });

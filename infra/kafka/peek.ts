// Reads a few records of a topic from given offsets and leaves no trace: for people who look, and
// for the age of what waits.
import type { UnixMs } from "../../stream/flow.ts";
import type { Kafka } from "./kafka.ts";

export interface SeenRecord {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  /** When the broker appended it. */
  readonly appendedAt: UnixMs;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, Buffer | string | undefined>>;
}

/** Why a reading ended that had enough. */
class Enough extends Error {}

/**
 * At most `count` records of each named partition, from its offset on. A partition whose offset is
 * the end of its log has none.
 */
export const peek = async (
  kafka: Kafka,
  {
    topic,
    from,
    count,
  }: { readonly topic: string; readonly from: ReadonlyMap<number, number>; readonly count: number },
): Promise<readonly SeenRecord[]> => {
  if (from.size === 0) return [];
  const seen: SeenRecord[] = [];
  const left = new Map([...from.keys()].map((partition) => [partition, count]));
  const enough = new AbortController();
  try {
    await kafka.replay({
      topics: [topic],
      from: new Map([[topic, from]]),
      only: (_, partition) => from.has(partition),
      signal: enough.signal,
      onBatch: ({ partition, messages }, appendedAt) => {
        const wanted = left.get(partition) ?? 0;
        for (const [n, { offset, key, value, headers }] of messages.slice(0, wanted).entries())
          seen.push({ topic, partition, offset, appendedAt: appendedAt(n), key, value, headers });
        left.set(partition, Math.max(0, wanted - messages.length));
        if ([...left.values()].every((more) => more === 0)) enough.abort(new Enough());
      },
    });
  } catch (error) {
    if (!(error instanceof Enough)) throw error;
  }
  return seen;
};

/** When the record at each offset was appended; a partition that has none there is left out. */
export const appendedAt = async (
  kafka: Kafka,
  topic: string,
  offsets: ReadonlyMap<number, number>,
): Promise<ReadonlyMap<number, UnixMs>> =>
  new Map((await peek(kafka, { topic, from: offsets, count: 1 })).map((one) => [one.partition, one.appendedAt]));

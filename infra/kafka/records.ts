// Reads single records and leaves no trace: by position, e.g. the bytes of dead letters, or a few
// from given offsets, for people who look at them and for the age of waiting records.
import type { Position, UnixMs } from "../../stream/flow.ts";
import type { InputMessage, PlacedMessage } from "../../stream/messages.ts";
import { type LogReplay, readWindows, type Sources, type Windows } from "./replay.ts";

export const placeOf = ({ topic, partition, offset }: Position): string => `${topic}/${partition}@${offset}`;

/**
 * Returns the records by `placeOf`. Positions that the log does not hold are left out. Rejects with
 * the first error.
 */
export const pick = async (
  sources: Sources,
  places: readonly Position[],
): Promise<ReadonlyMap<string, InputMessage>> => {
  const found = new Map<string, InputMessage>();
  if (places.length === 0) return found;
  const onBatch = ({
    topic,
    partition,
    messages,
  }: { readonly messages: readonly InputMessage[] } & Partition): void => {
    for (const message of messages) found.set(placeOf({ topic, partition, offset: message.offset }), message);
  };
  await readWindows(sources, { onBatch }, async (admin): Promise<Windows> => {
    const topics = [...new Set(places.map(({ topic }) => topic))];
    const held = await Promise.all(
      topics.map(async (topic) => (await admin.watermarks(topic)).map((marks) => ({ topic, ...marks }))),
    );
    const windows = held.flat().map(({ topic, partition, low, high }) => {
      const own = places.filter((place) => place.topic === topic && place.partition === partition);
      const offsets = [...new Set(own.map(({ offset }) => offset))].filter((offset) => offset >= low && offset < high);
      return { topic, partition, offsets: offsets.sort((a, b) => a - b) };
    });
    return {
      read: windows.flatMap(({ topic, partition, offsets }) =>
        offsets.map((offset) => ({ topic, partition, start: offset, end: offset + 1 })),
      ),
      idle: windows.filter(({ offsets }) => offsets.length === 0),
    };
  });
  return found;
};

type Partition = Pick<Position, "topic" | "partition">;

/** Ends a reading that has enough records. */
class EnoughRead extends Error {}

/**
 * Reads at most `count` records of each named partition, from its offset on. A partition whose
 * offset is the end of its log has none.
 */
export const peek = async (
  kafka: LogReplay,
  {
    topic,
    from,
    count,
  }: { readonly topic: string; readonly from: ReadonlyMap<number, number>; readonly count: number },
): Promise<readonly PlacedMessage[]> => {
  if (from.size === 0) return [];
  const seen: PlacedMessage[] = [];
  const left = new Map([...from.keys()].map((partition) => [partition, count]));
  const enough = new AbortController();
  try {
    await kafka.replay({
      topics: [topic],
      from: new Map([[topic, from]]),
      only: (_, partition) => from.has(partition),
      signal: enough.signal,
      onBatch: ({ partition, messages }) => {
        const wanted = left.get(partition) ?? 0;
        for (const message of messages.slice(0, wanted)) seen.push({ ...message, topic, partition });
        left.set(partition, Math.max(0, wanted - messages.length));
        if ([...left.values()].every((more) => more === 0)) enough.abort(new EnoughRead());
      },
    });
  } catch (error) {
    if (!(error instanceof EnoughRead)) throw error;
  }
  return seen;
};

/** When the record at each offset was appended; a partition without a record there is left out. */
export const appendedAt = async (
  kafka: LogReplay,
  topic: string,
  offsets: ReadonlyMap<number, number>,
): Promise<ReadonlyMap<number, UnixMs>> =>
  new Map((await peek(kafka, { topic, from: offsets, count: 1 })).map((one) => [one.partition, one.appendedAt]));

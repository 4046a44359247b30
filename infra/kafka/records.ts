// Reads single records and leaves no trace: by position, e.g. the bytes of dead letters, or a few
// from given offsets, for people who look at them and for the age of waiting records.
import type { Position, UnixMs } from "../../stream/flow.ts";
import type { InputMessage, PlacedMessage } from "../../stream/messages.ts";
import { type LogReplay, type ReplaySettings, readWindows, type Sources, type Window, type Windows } from "./replay.ts";

export const placeOf = ({ topic, partition, offset }: Position): string => `${topic}/${partition}@${offset}`;

/**
 * Hands over the records in these ranges, those of a partition in the order of their offsets.
 * Ranges may overlap. Records that the log does not hold are left out. Rejects with the first
 * error.
 */
export const readRanges = (
  sources: Sources,
  ranges: readonly Window[],
  onBatch: ReplaySettings["onBatch"],
): Promise<void> =>
  ranges.length === 0
    ? Promise.resolve()
    : readWindows(sources, { onBatch }, async (admin): Promise<Windows> => {
        const topics = [...new Set(ranges.map(({ topic }) => topic))];
        const held = await Promise.all(
          topics.map(async (topic) => (await admin.watermarks(topic)).map((marks) => ({ topic, ...marks }))),
        );
        const windows = held.flat().map(({ topic, partition, low, high }) => {
          const own = ranges.filter((range) => range.topic === topic && range.partition === partition);
          return { topic, partition, read: joined(own, low, high) };
        });
        return { read: windows.flatMap(({ read }) => read), idle: windows.filter(({ read }) => read.length === 0) };
      });

/** The ranges in order, without overlaps, as far as the log holds them. */
const joined = (ranges: readonly Window[], low: number, high: number): readonly Window[] => {
  const found: Window[] = [];
  for (const range of ranges.toSorted((a, b) => a.start - b.start)) {
    const one = { ...range, start: Math.max(range.start, low), end: Math.min(range.end, high) };
    const last = found.at(-1);
    if (one.start >= one.end) continue;
    if (last === undefined || one.start > last.end) found.push(one);
    else found[found.length - 1] = { ...last, end: Math.max(last.end, one.end) };
  }
  return found;
};

/**
 * Returns the records by `placeOf`. Positions that the log does not hold are left out. Rejects with
 * the first error.
 */
export const pick = async (
  sources: Sources,
  places: readonly Position[],
): Promise<ReadonlyMap<string, InputMessage>> => {
  const found = new Map<string, InputMessage>();
  const ranges = places.map(({ topic, partition, offset }) => ({ topic, partition, start: offset, end: offset + 1 }));
  await readRanges(sources, ranges, ({ topic, partition, messages }) => {
    for (const message of messages) found.set(placeOf({ topic, partition, offset: message.offset }), message);
  });
  return found;
};

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

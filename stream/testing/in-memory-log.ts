// A log in one process for tests and the bench. It partitions by key like the real one and has
// offsets, but stores nothing.

import type { OutputMessage, PlacedMessage } from "../messages.ts";
import { partitionOf } from "../partitioner.ts";
import type { WholeReader } from "../ports.ts";

/** A message with its position, and its rank among the messages of all topics. */
export interface LoggedMessage extends PlacedMessage {
  readonly rank: number;
}

export interface InMemoryLog {
  readonly append: (messages: readonly OutputMessage[]) => void;
  readonly partitions: (topic: string) => number;
  /** Returns at most `most` messages of a partition, starting at an offset. */
  readonly read: (topic: string, partition: number, from: number, most: number) => readonly LoggedMessage[];
  /** All messages of a topic in the order in which they were written. */
  readonly all: (topic: string) => readonly LoggedMessage[];
  readonly topics: () => readonly string[];
}

const bytesOf = (text: Buffer | string | null): Buffer | null => (typeof text === "string" ? Buffer.from(text) : text);

/** Topics without an entry have one partition. */
export const inMemoryLog = (partitionCounts: Readonly<Record<string, number>>): InMemoryLog => {
  const topics = new Map<string, LoggedMessage[][]>();
  let rank = 0;
  const of = (topic: string): LoggedMessage[][] => {
    const known = topics.get(topic);
    if (known !== undefined) return known;
    const made = Array.from({ length: partitionCounts[topic] ?? 1 }, () => []);
    topics.set(topic, made);
    return made;
  };
  return {
    append: (messages) => {
      for (const message of messages) {
        const partitions = of(message.topic);
        const key = bytesOf(message.key);
        const partition = key === null ? rank % partitions.length : partitionOf(key, partitions.length);
        const written = partitions[partition]!;
        const { topic, value, headers = {} } = message;
        const offset = written.length;
        written.push({ topic, partition, offset, rank: rank++, key, value, headers, appendedAt: 0 });
      }
    },
    partitions: (topic) => of(topic).length,
    read: (topic, partition, from, most) => of(topic)[partition]?.slice(from, from + most) ?? [],
    all: (topic) =>
      of(topic)
        .flat()
        .sort((a, b) => a.rank - b.rank),
    topics: () => [...topics.keys()],
  };
};

const all = { from: 0, until: Number.POSITIVE_INFINITY };
const none = { from: 0, until: 0 };

/** Reads a topic as the worker's port does. */
export const wholeOf =
  (log: InMemoryLog): WholeReader =>
  async (topic, onBatch, _, ranges) => {
    for (let partition = 0; partition < log.partitions(topic); partition++) {
      const { from, until } = ranges === undefined ? all : (ranges.get(partition) ?? none);
      const messages = log.read(topic, partition, from, until - from);
      if (messages.length > 0) await onBatch({ topic, partition, messages });
    }
  };

// Runs a topology in memory with the worker's own runner and fold. The log, memories and facts live
// in this process.

import { type Chain, chain } from "../chain.ts";
import { deadLetterOf } from "../dead-letters.ts";
import {
  type AnyTopic,
  type Read,
  type Recorded,
  type Topic,
  type Topology,
  type UnixMs,
  writesRows,
} from "../flow.ts";
import { inMemory } from "../memory/in-memory.ts";
import type { Memories } from "../memory/memory.ts";
import type { OutputMessage, ProcessBatch } from "../messages.ts";
import type { BatchCounts, RunnerPorts } from "../ports.ts";
import { runner } from "../runner.ts";
import { topicsWrittenBy } from "../topology.ts";
import type { Wire } from "../wire.ts";
import { type InMemoryLog, inMemoryLog, type LoggedMessage, wholeOf } from "./in-memory-log.ts";

/** An event as an edge would publish it. */
interface SentEvent<T> {
  readonly data: T;
  readonly at: UnixMs;
  /** The event time, if absent. */
  readonly receivedAt?: UnixMs;
}

export interface TopologyDriver {
  /** Publishes the events, then runs every stage until nothing is left to read. */
  readonly send: <T>(topic: Topic<T>, ...events: readonly SentEvent<T>[]) => Promise<void>;
  /** Publishes a raw message, readable or not, then runs every stage as `send` does. */
  readonly sendMessage: (message: OutputMessage) => Promise<void>;
  readonly read: <T>(topic: Topic<T>) => readonly Recorded<T>[];
  /** The messages of any topic as the log holds them, e.g. of a dead-letter topic. */
  readonly messages: (topic: string) => readonly LoggedMessage[];
  /** The rows that the sinks of this name would write for the current content of their topics. */
  readonly rows: (sink: string) => readonly unknown[];
  /** Sets what later events look up. Before the first call, every look-up fails. */
  readonly know: (read: Read) => void;
  /** Writes and reads the messages of this log. */
  readonly wire: Wire;
  /** The counts of the runners, one entry a batch. */
  readonly counts: readonly BatchCounts[];
  /** Reads the chain that begins with this stage again from its first message, as a new worker. */
  readonly rewind: (stage: string) => Promise<void>;
  /** Replaces the workers of all chains, which go on where they had committed. */
  readonly restart: () => void;
}

export interface DriveSettings {
  /** Builds the wire for these topics, e.g. `inMemoryWire`. */
  readonly wire: (topics: readonly AnyTopic[]) => Wire;
  readonly read?: Read;
  /** In-memory if absent. */
  readonly memories?: Memories;
  /** Names of stages to host together. If absent, every stage is hosted alone. */
  readonly hosting?: readonly (readonly string[])[];
  /** The number of messages in a batch. */
  readonly batch?: number;
  /** The order in which the partitions of a topic are read, e.g. reversed. */
  readonly inOrder?: (partitions: readonly number[]) => readonly number[];
}

const nothingKnown: Read = async ({ view }) => {
  throw new Error(`nothing is known of ${view}: give drive() a reader`);
};

/** A chain with its next offset for each partition. */
interface Group {
  readonly hosted: Chain;
  process: ProcessBatch;
  readonly next: number[];
  /** Unlike `next`, it stays while memory is rebuilt. */
  readonly committed: Map<number, number>;
}

/** Processes one batch. Returns false when nothing is left to read. */
const step = async (
  log: InMemoryLog,
  { hosted: { reads }, process, next, committed }: Group,
  partition: number,
  most: number,
): Promise<boolean> => {
  const messages = log.read(reads.name, partition, next[partition]!, most);
  if (messages.length === 0) return false;
  let isCurrent = true;
  await process(
    { topic: reads.name, partition, messages },
    {
      commit: async (offset) => {
        next[partition] = offset;
        committed.set(partition, offset);
      },
      heartbeat: async () => undefined,
      isCurrent: () => isCurrent,
      seek: (offset) => {
        next[partition] = offset;
        isCurrent = false;
      },
      readOn: () => undefined,
      rest: () => undefined,
    },
  );
  return true;
};

/** Runs every group until nothing is left to read. */
const runAll = async (
  log: InMemoryLog,
  groups: readonly Group[],
  { batch = 100, inOrder = (partitions) => partitions }: DriveSettings,
): Promise<void> => {
  for (let isMoving = true; isMoving; ) {
    isMoving = false;
    for (const group of groups)
      for (const partition of inOrder([...group.next.keys()]))
        if (await step(log, group, partition, batch)) isMoving = true;
  }
};

/** The ports of a worker without its servers: nothing is tried again, and nothing is logged. */
const portsOf = (
  { deadLetters }: Topology,
  { memories }: DriveSettings,
  own: Pick<RunnerPorts, "wire" | "read" | "produce" | "count" | "whole">,
): RunnerPorts => ({
  ...own,
  memories: memories ?? { fast: inMemory("fast"), durable: inMemory("durable") },
  deadLetters,
  deadLetter: (letter) => deadLetterOf(letter, 0),
  retry: (_, step) => step(),
  stops: async () => 1,
  log: { info: () => undefined, warn: () => undefined, error: () => undefined },
});

const messagesOf = <T>(topic: Topic<T>, events: readonly SentEvent<T>[], wire: Wire): readonly OutputMessage[] => {
  const position = { topic: topic.name, partition: 0, offset: 0 };
  return events.map(({ data, at, receivedAt = at }) => {
    const event = { id: topic.idOf(data), key: topic.keyOf(data), at, receivedAt, position, data };
    return { topic: topic.name, key: event.key, value: wire.encode(topic, event, null) };
  });
};

const recordsOf = <T>(log: InMemoryLog, wire: Wire, topic: Topic<T>): readonly Recorded<T>[] =>
  log
    .all(topic.name)
    .map(({ value, partition, offset }) => wire.decode(topic, value, { topic: topic.name, partition, offset }));

/** Builds the stages, sinks and topics of the topology. Edges are not run: `send` replaces them. */
export const drive = (topology: Topology, settings: DriveSettings): TopologyDriver => {
  const stages = topology.nodes.filter((node) => node.is === "stage");
  const sinks = topology.nodes.filter((node) => node.is === "sink").filter(writesRows);
  const ofStages = stages.flatMap((node) => [node.from, ...topicsWrittenBy(node)]);
  const topics = [...new Set([...ofStages, ...sinks.map(({ from }) => from)])];
  const wire = settings.wire(topics);
  const log = inMemoryLog(Object.fromEntries(topics.map(({ name, partitions }) => [name, partitions])));
  const counts: BatchCounts[] = [];
  let read = settings.read ?? nothingKnown;

  const ports = portsOf(topology, settings, {
    wire,
    read: (view, asOf) => read(view, asOf),
    produce: async (messages) => log.append(messages),
    count: (counted) => counts.push(counted),
    whole: wholeOf(log),
  });
  const started = (hosted: Chain, committed: Group["committed"]): ProcessBatch =>
    runner(hosted, { ...ports, committed: async () => new Map(committed) });
  const restarted = (group: Group): void => {
    group.process = started(group.hosted, group.committed);
  };
  const groups = (settings.hosting ?? stages.map(({ name }) => [name])).map((names): Group => {
    const hosted = chain(topology, names);
    const committed = new Map<number, number>();
    return {
      hosted,
      process: started(hosted, committed),
      next: Array.from({ length: hosted.reads.partitions }, () => 0),
      committed,
    };
  });

  const run = (): Promise<void> => runAll(log, groups, settings);

  const decoded = <T>(topic: Topic<T>): readonly Recorded<T>[] => recordsOf(log, wire, topic);

  return {
    send: async (topic, ...events) => {
      log.append(messagesOf(topic, events, wire));
      await run();
    },
    sendMessage: async (message) => {
      log.append([message]);
      await run();
    },
    read: decoded,
    messages: log.all,
    rows: (name) => sinks.filter((node) => node.name === name).flatMap((node) => decoded(node.from).flatMap(node.rows)),
    know: (reader) => {
      read = reader;
    },
    wire,
    counts,
    restart: () => groups.forEach(restarted),
    rewind: async (stage) => {
      const group = groups.find(({ hosted }) => hosted.name === stage);
      if (group === undefined) throw new Error(`no chain begins with ${stage}`);
      group.next.fill(0);
      group.committed.clear();
      restarted(group);
      await run();
    },
  };
};

// A log, memories and committed offsets in this process, a list of all effects, and workers that
// can die at any of them.

import { inMemoryWire } from "../../infra/avro/wire.ts";
import { chain } from "../../stream/chain.ts";
import { deadLetterOf } from "../../stream/dead-letters.ts";
import type { Read, Topology } from "../../stream/flow.ts";
import { inMemory } from "../../stream/memory/in-memory.ts";
import type { Memories, Memory } from "../../stream/memory/memory.ts";
import type { Control, InputMessage, ProcessBatch } from "../../stream/messages.ts";
import type { RunnerPorts } from "../../stream/ports.ts";
import { runner } from "../../stream/runner.ts";
import { type InMemoryLog, inMemoryLog, wholeOf } from "../../stream/testing/in-memory-log.ts";
import type { Wire } from "../../stream/wire.ts";
import { rateOf, type Step, toy, toys } from "./toy.ts";

/** The error that ends a killed process; no code inside the process catches it. */
export class Killed extends Error {}

export interface World {
  readonly log: InMemoryLog;
  readonly wire: Wire;
  readonly memories: Memories;
  readonly effects: string[];
  /** The offset at which the next owner begins, by group, topic and partition. */
  readonly committed: Map<string, number>;
}

export const world = (memories: Memories = { fast: inMemory("fast"), durable: inMemory("durable") }): World => ({
  log: inMemoryLog(Object.fromEntries(Object.values(toys).map(({ name, partitions }) => [name, partitions]))),
  wire: inMemoryWire(Object.values(toys)),
  memories,
  effects: [],
  committed: new Map(),
});

export const publish = ({ log, wire }: World, ...steps: readonly Step[]): void =>
  log.append(
    steps.map((data) => {
      const position = { topic: "toy.raw", partition: 0, offset: 0 };
      const event = { id: data.id, key: data.place, at: 1_000, receivedAt: 1_000, position, data };
      return { topic: "toy.raw", key: data.place, value: wire.encode(toys.raw, event, null) };
    }),
  );

export interface WorkerSettings {
  readonly hosting: readonly string[];
  readonly read?: Read;
  readonly topology?: Topology;
  /** Called before and after each effect, e.g. to throw Killed. */
  readonly around?: (effect: string, when: "before" | "after") => void | Promise<void>;
  readonly ports?: Partial<RunnerPorts>;
}

export interface Worker {
  readonly name: string;
  readonly process: ProcessBatch;
  /**
   * Processes one batch of one partition from the committed offset on; false if there is nothing to
   * read.
   */
  readonly step: (partition: number, most: number, control?: Partial<Control>) => Promise<boolean>;
  /** Reads a batch now and processes it later, like an owner that has lost its partition. */
  readonly hold: (partition: number, most: number) => () => Promise<void>;
}

export const worker = (within: World, { hosting, around, ports = {}, ...settings }: WorkerSettings): Worker => {
  const hosted = chain(settings.topology ?? toy, hosting);
  const effect = async <T>(name: string, work: () => Promise<T>): Promise<T> => {
    await around?.(name, "before");
    within.effects.push(name);
    const answer = await work();
    await around?.(name, "after");
    return answer;
  };
  const watched = (memory: Memory): Memory => ({
    load: (wanted) => effect(`load ${wanted.stage}`, () => memory.load(wanted)),
    remember: (batch) => effect(`remember ${batch.map(({ stage }) => stage).join(",")}`, () => memory.remember(batch)),
  });
  const process = runner(hosted, {
    wire: within.wire,
    memories: { fast: watched(within.memories.fast), durable: watched(within.memories.durable) },
    read: settings.read ?? rateOf(1),
    produce: (messages) =>
      effect(`produce ${[...new Set(messages.map(({ topic }) => topic))].join(",")}`, async () =>
        within.log.append(messages),
      ),
    deadLetters: toy.deadLetters,
    deadLetter: (letter) => deadLetterOf(letter, 0),
    retry: (_, step) => step(),
    count: () => within.effects.push("count"),
    stops: async () => 1,
    whole: wholeOf(within.log),
    log: { info: () => undefined, warn: () => undefined, error: () => undefined },
    ...ports,
  });
  const topic = hosted.reads.name;
  const placeOf = (partition: number): string => `${hosted.name}/${topic}/${partition}`;
  const controlOf = (partition: number): Control => {
    let isCurrent = true;
    return {
      commit: (offset) => effect(`commit ${offset}`, async () => void within.committed.set(placeOf(partition), offset)),
      heartbeat: async () => undefined,
      isCurrent: () => isCurrent,
      seek: (offset) => {
        isCurrent = false;
        within.effects.push(`seek ${offset}`);
        within.committed.set(placeOf(partition), offset);
      },
      readOn: () => undefined,
      rest: () => undefined,
    };
  };
  const readFrom = (partition: number, most: number): readonly InputMessage[] =>
    within.log.read(topic, partition, within.committed.get(placeOf(partition)) ?? 0, most);
  return {
    name: hosted.name,
    process,
    step: async (partition, most, control = {}) => {
      const messages = readFrom(partition, most);
      if (messages.length > 0) await process({ topic, partition, messages }, { ...controlOf(partition), ...control });
      return messages.length > 0;
    },
    hold: (partition, most) => {
      const messages = readFrom(partition, most);
      const never = { commit: async () => undefined };
      return async () => {
        if (messages.length > 0) await process({ topic, partition, messages }, { ...controlOf(partition), ...never });
      };
    },
  };
};

/** Runs the workers until none finds anything to read. */
export const settleDown = async (workers: readonly Worker[], within: World, most = 100): Promise<void> => {
  for (let isMoving = true; isMoving; ) {
    isMoving = false;
    for (const one of workers)
      for (let partition = 0; partition < 3; partition++) if (await one.step(partition, most)) isMoving = true;
  }
  within.effects.push("quiet");
};

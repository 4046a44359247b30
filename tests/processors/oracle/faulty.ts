// The same histories on workers that die at any effect, read messages again, and overlap with an
// owner that has lost its partition.
import { inMemoryWire } from "../../../infra/avro/wire.ts";
import type { AnyTopic, Topic, Topology } from "../../../stream/flow.ts";
import { inMemory } from "../../../stream/memory/in-memory.ts";
import { inMemoryLog } from "../../../stream/testing/in-memory-log.ts";
import { topics } from "../../../topics.ts";
import { pipeline } from "../../../topology.ts";
import { Killed, type Worker, type World, worker } from "../../support/world.ts";
import type { Answers, History } from "./history.ts";
import { randomOf } from "./random.ts";
import { inSteps, knownTo, publishedBy, readAnswers } from "./real.ts";
import { movesOf, writtenIn } from "./run-histories.ts";

const PARTITIONS = 2;
const LARGEST_BATCH = 40;

/** Counts of the faults: a run without faults proves nothing. */
export interface Faults {
  kills: number;
  rewinds: number;
  overlaps: number;
  /** Messages that the log holds more than once. */
  repeated: number;
}

const worldOf = (): World => {
  const all: readonly AnyTopic[] = Object.values(topics);
  return {
    log: inMemoryLog(Object.fromEntries(all.map(({ name }) => [name, name.endsWith(".dlq") ? 1 : PARTITIONS]))),
    wire: inMemoryWire(all),
    memories: { fast: inMemory("fast"), durable: inMemory("durable") },
    effects: [],
    committed: new Map(),
  };
};
const publish = <T>({ log, wire }: World, topic: Topic<T>, sent: { data: T; at: number; receivedAt: number }): void => {
  const position = { topic: topic.name, partition: 0, offset: 0 };
  const event = { ...sent, id: topic.idOf(sent.data), key: topic.keyOf(sent.data), position };
  log.append([{ topic: topic.name, key: event.key, value: wire.encode(topic, event, null) }]);
};

/** Runs until nothing is left to read; a killed worker is replaced by a new one. */
const runThrough = async (workers: readonly Worker[], random: ReturnType<typeof randomOf>, faults: Faults) => {
  const { below, chance } = random;
  const zombies: (() => Promise<void>)[] = [];
  const alive = async (work: () => Promise<unknown>): Promise<boolean> => {
    try {
      return (await work()) !== false;
    } catch (error) {
      if (!(error instanceof Killed)) throw error;
      faults.kills += 1;
      return true;
    }
  };
  for (let isMoving = true; isMoving; ) {
    isMoving = false;
    for (const one of workers)
      for (let partition = 0; partition < PARTITIONS; partition++) {
        const most = 1 + below(LARGEST_BATCH);
        if (chance(0.1)) zombies.push(one.hold(partition, most));
        const zombie = zombies.length > 0 && chance(0.3) ? zombies.shift()! : null;
        if (zombie !== null) faults.overlaps += 1;
        const [hasRead] = await Promise.all([
          alive(() => one.step(partition, most)),
          zombie === null ? false : alive(zombie),
        ]);
        if (hasRead) isMoving = true;
      }
  }
};

export const answersUnderFaults = async (
  histories: readonly History[],
  seed: number,
  faults: Faults,
  topology: Topology = pipeline,
): Promise<readonly Answers[]> => {
  const random = randomOf(seed);
  const { below, chance, pick } = random;
  const within = worldOf();
  const read = knownTo(histories);
  const around = (): void => {
    if (chance(0.01)) throw new Killed();
  };
  const ports = { deadLetters: pipeline.deadLetters };
  const workers = ["attribute", "settle", "commission"].map((stage) =>
    worker(within, { hosting: [stage], topology, read, around, ports }),
  );
  const published = histories.map(publishedBy);
  const decoded = <T>(topic: Topic<T>) =>
    within.log.all(topic.name).map((one) => within.wire.decode(topic, one.value, { ...one, topic: topic.name }));
  for (const step of inSteps(published)) {
    for (const [one] of step)
      if (one.topic === "scored") publish(within, topics.eventsScored, one);
      else if (one.topic === "claims") publish(within, topics.claims, one);
    const logged = { ...within.memories, wire: within.wire, read: decoded, messages: within.log.all };
    for (const one of (await movesOf(step, 0, logged)).flat()) publish(within, topics.claims, one);
    const places = [...within.committed.keys()];
    if (places.length > 0 && chance(0.5)) {
      const place = pick(...places);
      within.committed.set(place, below(within.committed.get(place)! + 1));
      faults.rewinds += 1;
    }
    await runThrough(workers, random, faults);
  }
  const written = writtenIn({ wire: within.wire, messages: within.log.all, read: decoded });
  const { conversions, entries } = written;
  faults.repeated += conversions.length - new Set(conversions.map((one) => one.change_id)).size;
  faults.repeated += entries.length - new Set(entries.map((one) => one.entry_id)).size;
  return readAnswers(histories, published, written);
};

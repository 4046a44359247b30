// Both memory drivers in one process without storage, for tests, simulation and the bench.
import type { LoadedMemory, Memory, MemoryWrite, Version } from "./memory.ts";

interface StageMemory {
  readonly versions: Map<string, Version[]>;
  readonly outcomes: Map<string, Uint8Array>;
  readonly partitions: Map<string, number>;
  readonly truncated: Map<string, number>;
  readonly marks: Map<string, number>;
}

/** Behaves like Redis (`fast`) or like Postgres (`durable`). The contract suite checks both. */
export const inMemory = (driver: "fast" | "durable"): Memory => {
  const stages = new Map<string, StageMemory>();
  const of = (stage: string): StageMemory => {
    const known = stages.get(stage);
    if (known !== undefined) return known;
    const made: StageMemory = {
      versions: new Map(),
      outcomes: new Map(),
      partitions: new Map(),
      truncated: new Map(),
      marks: new Map(),
    };
    stages.set(stage, made);
    return made;
  };
  const hasMoved = ({ stage, met, outcomes }: MemoryWrite): boolean =>
    outcomes.some(({ eventId }) => of(stage).outcomes.has(eventId)) ||
    met.some(({ key, version }) => (of(stage).versions.get(key)?.at(-1)?.version ?? 0) !== version);

  return {
    load: async ({ stage, keys, eventIds, topic, partition }): Promise<LoadedMemory> => {
      const memory = of(stage);
      const picked = <Value>(from: ReadonlyMap<string, Value>, names: readonly string[]): ReadonlyMap<string, Value> =>
        new Map(names.flatMap((name) => (from.has(name) ? [[name, from.get(name)!] as const] : [])));
      return {
        versions: picked(memory.versions, keys),
        outcomes: picked(memory.outcomes, eventIds),
        partitions: picked(memory.partitions, eventIds),
        truncated: picked(memory.truncated, keys),
        mark: memory.marks.get(`${topic}/${partition}`) ?? null,
      };
    },
    remember: async (batch) => {
      if (driver === "durable" && batch.some(hasMoved)) return "moved";
      for (const write of batch) keep(of(write.stage), driver, write);
      return "remembered";
    },
  };
};

const keep = (
  memory: StageMemory,
  driver: "fast" | "durable",
  { topic, partition, mark, changes, outcomes, forgets }: MemoryWrite,
): void => {
  for (const change of changes) {
    const versions = memory.versions.get(change.key) ?? [];
    if (driver === "durable") memory.versions.set(change.key, [change]);
    else if (!versions.some(({ eventId }) => eventId === change.eventId))
      memory.versions.set(
        change.key,
        [...versions, change].sort((a, b) => a.offset - b.offset),
      );
  }
  for (const { eventId, position, bytes } of outcomes) {
    memory.outcomes.set(eventId, bytes);
    memory.partitions.set(eventId, position.partition);
  }
  for (const { key, eventIds, before } of forgets) {
    memory.versions.set(
      key,
      (memory.versions.get(key) ?? []).filter(({ eventId }) => !eventIds.includes(eventId)),
    );
    memory.truncated.set(key, Math.max(before, memory.truncated.get(key) ?? -1));
  }
  memory.marks.set(`${topic}/${partition}`, Math.max(mark, memory.marks.get(`${topic}/${partition}`) ?? 0));
};

// A read-only view of durable memory: changes on top of it stay in this process.
import { inMemory } from "../../../stream/memory/in-memory.ts";
import type { Memory, MemoryWrite, Version } from "../../../stream/memory/memory.ts";

/**
 * Returns for each key the version in the overlay, else the stored one. `remember` writes to the
 * overlay only.
 */
export const overlay = (under: Pick<Memory, "load">): Memory => {
  const above = inMemory("durable");
  return {
    load: async (wanted) => {
      const [own, below] = await Promise.all([above.load(wanted), under.load(wanted)]);
      return {
        versions: new Map<string, readonly Version[]>([...below.versions, ...own.versions]),
        outcomes: new Map([...below.outcomes, ...own.outcomes]),
        truncated: below.truncated,
        mark: below.mark,
      };
    },
    // Outcomes that were loaded may be in the stored memory, which the overlay does not compare. It
    // need not: a shadow has no second owner.
    remember: (batch) => above.remember(batch.map((one) => ({ ...one, met: [] }))),
  };
};

/** A memory whose changes since the last `keep` can be dropped. */
export interface TentativeMemory extends Memory {
  readonly keep: () => Promise<void>;
  readonly drop: () => void;
}

export const tentative = (under: Memory): TentativeMemory => {
  let above = overlay(under);
  let written: MemoryWrite[] = [];
  const drop = (): void => {
    above = overlay(under);
    written = [];
  };
  return {
    load: (wanted) => above.load(wanted),
    remember: (batch) => {
      written.push(...batch);
      return above.remember(batch);
    },
    keep: async () => {
      // One by one: what a later write met is what an earlier one made.
      for (const one of written) await under.remember([one]);
      drop();
    },
    drop,
  };
};

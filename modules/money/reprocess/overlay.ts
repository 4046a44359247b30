// Durable memory that is only read: what is remembered on top of it stays in this process.
import { inMemory } from "../../../stream/memory/in-memory.ts";
import type { Memory, Version } from "../../../stream/memory/memory.ts";

/**
 * Of each key the version above, else the one underneath. `remember` touches nothing that anybody
 * else can see.
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
    // What was met may stand underneath, where nothing is compared: there is no second owner of a
    // shadow.
    remember: (batch) => above.remember(batch.map((one) => ({ ...one, met: [] }))),
  };
};

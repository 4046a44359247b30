// Memory that can be lost while the log stays, and what a rebuild then writes.
import { inMemory } from "../../stream/memory/in-memory.ts";
import type { Memories } from "../../stream/memory/memory.ts";
import type { DriveSettings, TopologyDriver } from "../../stream/testing/drive.ts";

export interface LosingMemory {
  readonly settings: Required<Pick<DriveSettings, "memories" | "inOrder">>;
  /** Empties durable memory. From now on partitions are read in this order. */
  readonly lose: (order: Order) => void;
}
export type Order = "forwards" | "backwards";

export const losingMemory = (): LosingMemory => {
  let durable = inMemory("durable");
  let isBackwards = false;
  const memories: Memories = {
    fast: inMemory("fast"),
    durable: { load: (wanted) => durable.load(wanted), remember: (batch) => durable.remember(batch) },
  };
  return {
    settings: { memories, inOrder: (partitions) => (isBackwards ? [...partitions].reverse() : partitions) },
    lose: (order) => {
      durable = inMemory("durable");
      isBackwards = order === "backwards";
    },
  };
};

/** The messages of topics without repeats, of a log up to a rank or from it on. */
const contents = (
  driven: Pick<TopologyDriver, "messages">,
  topics: readonly { readonly name: string }[],
  isCounted: (rank: number) => boolean,
): readonly string[] =>
  [
    ...new Set(
      topics.flatMap(({ name }) =>
        driven
          .messages(name)
          .flatMap(({ rank, value }) => (isCounted(rank) ? [`${name} ${value!.toString("hex")}`] : [])),
      ),
    ),
  ].sort();

/** What the log held before `work`, and what it wrote. */
export const writtenBy = async (
  driven: Pick<TopologyDriver, "messages">,
  topics: readonly { readonly name: string }[],
  work: () => Promise<void>,
): Promise<{ readonly before: readonly string[]; readonly again: readonly string[] }> => {
  const last = Math.max(-1, ...topics.flatMap(({ name }) => driven.messages(name).map(({ rank }) => rank)));
  await work();
  return {
    before: contents(driven, topics, (rank) => rank <= last),
    again: contents(driven, topics, (rank) => rank > last),
  };
};

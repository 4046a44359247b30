// Decides when a letter that was sent again counts as reprocessed: every reader has committed past
// it, and none of them wrote a new failure.

import { letterTopics } from "../../../edges/dead-letters.ts";
import type { Admin } from "../../../infra/kafka/kafka.ts";
import { type Topology, writesRows } from "../../../stream/flow.ts";
import { readersOf } from "../../../stream/topology.ts";
import type { Hop, Hosts } from "../groups/hosts.ts";
import type { Attempt } from "./letter-index.ts";

/** The group that turns dead-letter topics into the index. */
export const INDEX_GROUP = "tributary.dead-letters";

/**
 * Returns the groups that a letter has to pass, in the order of the data flow: the host of every
 * stage, and of every sink that may refuse. The index comes last, so that a failure on the way is
 * indexed before a letter is marked as passed. A stage or sink that no worker ever hosted is not
 * waited for.
 */
const hopsOf = (topology: Topology, hosts: Hosts): readonly Hop[] => {
  const readers = readersOf(topology).filter((node) => node.is === "stage" || writesRows(node));
  const hosting = readers.map(hosts).filter(({ isRecorded }) => isRecorded);
  return [
    ...hosting.filter(({ group }, n) => n === hosting.findIndex((one) => one.group === group)),
    ...Object.values(letterTopics).map((topic) => ({ topic, group: INDEX_GROUP, nodes: [] })),
  ];
};

export interface SeeingPorts {
  readonly admin: Pick<Admin, "watermarks" | "committed">;
  readonly hosts: () => Promise<Hosts>;
  readonly underWay: () => Promise<readonly Attempt[]>;
  readonly passed: (letters: readonly Attempt[]) => Promise<number>;
}

interface Walk {
  readonly letters: readonly Attempt[];
  readonly hops: readonly Hop[];
  /** The index of the current hop, and the end offsets of its topic when the walk reached it. */
  at: number;
  ends: ReadonlyMap<number, number> | undefined;
}

/**
 * Returns a function that advances one walk as far as it can without waiting; the next call
 * continues where it stopped. It returns how many letters passed.
 * A walk takes the letters that were sent before it began. It notes the end of a topic only when
 * every earlier hop has passed, and a group commits only after its outputs, dead letters included,
 * are acknowledged. So at the end of the walk a letter has either come through, or its next failure
 * is indexed and has ended this attempt; `passed` then skips it.
 * If a reader was slower than it seemed, its failure reopens the letter, so an early verdict loses
 * nothing. The walk lives in memory only: a restarted process starts a new one.
 */
export const confirmReprocessed = (
  topology: Topology,
  { admin, hosts, underWay, passed }: SeeingPorts,
): (() => Promise<number>) => {
  let walk: Walk | undefined;
  return async () => {
    if (walk === undefined) {
      const letters = await underWay();
      if (letters.length === 0) return 0;
      walk = { letters, hops: hopsOf(topology, await hosts()), at: 0, ends: undefined };
    }
    for (; walk.at < walk.hops.length; walk.at += 1, walk.ends = undefined) {
      const { topic, group } = walk.hops[walk.at]!;
      walk.ends ??= new Map(
        (await admin.watermarks(topic))
          .filter(({ low, high }) => high > low)
          .map(({ partition, high }) => [partition, high]),
      );
      const committed = walk.ends.size === 0 ? walk.ends : await admin.committed(group, topic);
      for (const [partition, end] of walk.ends) if ((committed.get(partition) ?? 0) < end) return 0;
    }
    const { letters } = walk;
    walk = undefined;
    return passed(letters);
  };
};

// When a letter that was sent again counts as reprocessed: every reader has gone past it, and none
// of them wrote a further failure.

import type { Admin } from "../../../infra/kafka/kafka.ts";
import { type Topology, writesRows } from "../../../stream/flow.ts";
import { readersOf } from "../../../stream/topology.ts";
import type { Hop, Hosts } from "../groups/hosts.ts";
import { letterTopics } from "./letter.ts";
import type { Attempt } from "./letter-index.ts";

/** The group that turns dead-letter topics into the index. */
export const INDEX_GROUP = "tributary.dead-letters";

/**
 * Who has to pass, in the order that data flows: of every stage, and of every sink that may refuse,
 * the group that hosts it. The index comes at the end, so that a failure on the way is known
 * before anything is called passed. What no worker ever hosted is not waited for.
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
  /** The hop at which it is, and where its topic ended when the walk came there. */
  at: number;
  ends: ReadonlyMap<number, number> | undefined;
}

/**
 * One look a call, without waiting: goes on where the last one ended. A walk takes the letters that
 * were sent before it began, and notes the end of each topic only when everything before it has
 * passed; a group commits when its outputs, dead letters among them, are acknowledged. So at the
 * end of the walk either the letter has come through, or its next failure is in the index and has
 * ended this attempt, and `passed` leaves it alone. Should a reader be slower than it seemed, its
 * failure opens the letter again: nothing is lost by haste. Kept in this process alone; its
 * successor walks again.
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

// Measures in the log whether live traffic flows and whether it is late, that is, whether it has
// records that an active group should have committed by now.
import type { Admin } from "../../../infra/kafka/kafka.ts";
import { type Topology, writesRows } from "../../../stream/flow.ts";
import { edgesOf, readersOf } from "../../../stream/topology.ts";
import { groupNamed } from "../groups/hosting.ts";

export interface LiveTraffic {
  /** Records appended more than 3 s ago that live groups have not committed. */
  readonly late: number;
  /** Something was appended since the last measurement. */
  readonly isFlowing: boolean;
}

/** A sink needs a second to fetch and another to write; older records count as late. */
const LATE_AFTER_MS = 3_000;
const ASKED_EVERY_MS = 1_000;

/**
 * Returns a function that measures at most once a second. Skips groups without members: they are
 * stopped, held or hosted under another name, so nothing waits for them.
 */
export const liveTrafficOf = (
  admin: Admin,
  topology: Topology,
  clock: () => number = Date.now,
): (() => Promise<LiveTraffic>) => {
  // The archive gathers a whole file before it commits, so it is late by design, and nothing waits
  // for it.
  const reading = readersOf(topology).filter((node) => node.is === "stage" || writesRows(node));
  const readers = reading.map(({ name, from }) => ({ group: groupNamed(name), topic: from.name }));
  const entrances = [...new Set(edgesOf(topology).map(({ to }) => to.name))];
  let asked: { readonly at: number; readonly answer: Promise<LiveTraffic> } | undefined;
  let ends: number | undefined;

  const lateOnes = async (): Promise<number> => {
    const states = await admin.describeGroups(readers.map(({ group }) => group));
    const live = readers.filter(({ group }) => (states.find((one) => one.group === group)?.members.length ?? 0) > 0);
    const read = [...new Set(live.map(({ topic }) => topic))];
    const due = new Map(
      await Promise.all(
        read.map(async (topic) => [topic, await admin.offsetsAt(topic, clock() - LATE_AFTER_MS)] as const),
      ),
    );
    const late = await Promise.all(
      live.map(async ({ group, topic }) => {
        const committed = await admin.committed(group, topic);
        return [...committed].reduce(
          (sum, [partition, offset]) => sum + Math.max(0, (due.get(topic)?.get(partition) ?? 0) - offset),
          0,
        );
      }),
    );
    return late.reduce((sum, one) => sum + one, 0);
  };
  const look = async (): Promise<LiveTraffic> => {
    const [late, marks] = await Promise.all([
      lateOnes(),
      Promise.all(entrances.map((topic) => admin.watermarks(topic))),
    ]);
    const now = marks.flat().reduce((sum, { high }) => sum + high, 0);
    const isFlowing = ends !== undefined && now > ends;
    ends = now;
    return { late, isFlowing };
  };
  return () => {
    if (asked === undefined || clock() - asked.at >= ASKED_EVERY_MS) asked = { at: clock(), answer: look() };
    return asked.answer;
  };
};

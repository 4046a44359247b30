// apps/keeper/live-traffic.ts - whether live traffic is kept waiting, by the log itself: records that a group at work should have committed by now.
import type { Admin } from "../../stream/admin.ts";
import { type Topology, writesRows } from "../../stream/flow.ts";

/** A fetch of a sink takes a second, its write another; what is older waits. */
const LATE_AFTER_MS = 3_000;
const ASKED_EVERY_MS = 1_000;

/**
 * Answers how many records live groups have not committed although they were appended more than 3 s ago; asked at most once a second. A group without
 * members is stopped, held or hosted under another name: nobody waits for it.
 */
export const lateRecordsOf = (admin: Admin, { nodes }: Topology, clock: () => number = Date.now): (() => Promise<number>) => {
  // A copy of the log gathers a file before it commits: it is late by design, and nobody waits for it.
  const reading = nodes.filter((node) => node.is === "stage" || (node.is === "sink" && writesRows(node)));
  const readers = reading.map(({ name, from }) => ({ group: `tributary.${name}`, topic: from.name }));
  let asked = { at: Number.NEGATIVE_INFINITY, late: Promise.resolve(0) };

  const ask = async (): Promise<number> => {
    const states = await admin.describeGroups(readers.map(({ group }) => group));
    const live = readers.filter(({ group }) => (states.find((one) => one.group === group)?.members.length ?? 0) > 0);
    const due = new Map(
      await Promise.all(
        [...new Set(live.map(({ topic }) => topic))].map(
          async (topic) => [topic, await admin.offsetsAt(topic, clock() - LATE_AFTER_MS)] as const,
        ),
      ),
    );
    const late = await Promise.all(
      live.map(async ({ group, topic }) => {
        const committed = await admin.committed(group, topic);
        return [...committed].reduce((sum, [partition, offset]) => sum + Math.max(0, (due.get(topic)?.get(partition) ?? 0) - offset), 0);
      }),
    );
    return late.reduce((sum, one) => sum + one, 0);
  };
  return () => {
    if (clock() - asked.at >= ASKED_EVERY_MS) asked = { at: clock(), late: ask() };
    return asked.late;
  };
};

// Counts accepted events that should be in the analytics store by now and are not.
import type { Admin } from "../../../infra/kafka/kafka.ts";
import { hopsToStore } from "../../log/groups/hops-to-store.ts";
import type { Hop, Hosts } from "../../log/groups/hosts.ts";

/**
 * Events younger than this are still in transit; older ones that are not stored count as waiting
 * (docs/design/contracts.md, "Health").
 */
const ON_THEIR_WAY_MS = 5_000;

export interface WaitingPorts {
  readonly admin: () => Promise<Pick<Admin, "watermarks" | "offsetsAt" | "committed">>;
  /** Returns who hosts each stage and sink now. */
  readonly hosts: () => Promise<Hosts>;
}

/**
 * Counts records that were appended more than five seconds ago and that a later group has not
 * committed. An event waits at one hop at a time, so none counts twice. Rejects while the log is
 * unreachable.
 */
export const waitingEvents = async (ports: WaitingPorts): Promise<number> => {
  const [admin, hosts] = await Promise.all([ports.admin(), ports.hosts()]);
  const waitingAt = async ({ group, topic }: Hop): Promise<number> => {
    const [marks, due, committed] = await Promise.all([
      admin.watermarks(topic),
      admin.offsetsAt(topic, Date.now() - ON_THEIR_WAY_MS),
      admin.committed(group, topic),
    ]);
    return marks.reduce((sum, { partition, low, high }) => {
      const until = Math.min(high, due.get(partition) ?? high);
      return sum + Math.max(0, until - Math.max(low, committed.get(partition) ?? low));
    }, 0);
  };
  return (await Promise.all(hopsToStore(hosts).map(waitingAt))).reduce((sum, count) => sum + count, 0);
};

// How many accepted events are not in the analytics store yet, although they should be.
import type { Admin } from "../../../infra/kafka/kafka.ts";
import { hopsToStore } from "../../log/groups/hops-to-store.ts";
import type { Hop, Hosts } from "../../log/groups/hosts.ts";

/**
 * Events younger than this are on their way; older ones that are not stored are waiting
 * (docs/design/contracts.md, "Health").
 */
const ON_THEIR_WAY_MS = 5_000;

export interface WaitingPorts {
  readonly admin: () => Promise<Pick<Admin, "watermarks" | "offsetsAt" | "committed">>;
  /** Who hosts each stage and sink now. */
  readonly hosts: () => Promise<Hosts>;
}

/**
 * Records before the mark of five seconds ago that a group on the way has not committed. Each event
 * waits at one hop at a time. Rejects while the log cannot be asked.
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

// Tells whether everything that was accepted before some moment has passed all stages and is stored
// in the analytics store.
import { setTimeout as sleep } from "node:timers/promises";
import type { Admin } from "../../../infra/kafka/kafka.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { hopsToStore } from "../../log/groups/hops-to-store.ts";
import type { Hop, Hosts } from "../../log/groups/hosts.ts";

/**
 * Every request is answered within this time, so what arrived earlier is in the log. Four times the
 * longest wait for the log.
 */
const ANSWERED_WITHIN_MS = 30_000;
/**
 * A walk that reaches a stage without progress is abandoned after this time; the next call starts
 * another.
 */
const WALK_MS = 60_000;
const ASKED_EVERY_MS = 100;
const HOSTS_EVERY_MS = 1_000;

const isOnTheWay = ({ group, topic }: Hop, hosts: Hosts): boolean =>
  hopsToStore(hosts).some((hop) => hop.group === group && hop.topic === topic);

export interface Progress {
  /**
   * Resolves with true when every event that arrived at `receivedAt` and was answered before this
   * call is stored; with false when that is not certain within `waitMs`. Rejects while the log is
   * unreachable.
   */
  readonly isThrough: (receivedAt: UnixMs, waitMs: number) => Promise<boolean>;
}

export interface ProgressPorts {
  readonly admin: () => Promise<Pick<Admin, "watermarks" | "committed">>;
  readonly hosts: () => Promise<Hosts>;
  /** True while this edge itself holds events that wait for the log. */
  readonly isHolding: () => boolean;
}

/**
 * Resolves with true once the group has committed the current end of its topic. Resolves with false
 * when that takes longer than `end`, or when another group hosts the sink meanwhile, so that this
 * group will never commit it.
 */
const passes = async (
  asked: Pick<Admin, "watermarks" | "committed">,
  hop: Hop,
  hosts: ProgressPorts["hosts"],
  end: UnixMs,
): Promise<boolean> => {
  const marks = (await asked.watermarks(hop.topic)).filter(({ low, high }) => high > low);
  let checkedAt = Date.now();
  while (marks.length > 0) {
    const committed = await asked.committed(hop.group, hop.topic);
    if (marks.every(({ partition, high }) => (committed.get(partition) ?? -1) >= high)) return true;
    const now = Date.now();
    if (now > end) return false;
    if (now - checkedAt > HOSTS_EVERY_MS) {
      if (!isOnTheWay(hop, await hosts())) return false;
      checkedAt = now;
    }
    await sleep(ASKED_EVERY_MS);
  }
  return true;
};

/**
 * Walks the hops to the store: notes the end of the log, waits until the first group has committed
 * that, notes the end of the next topic, and so on. A group commits when its outputs are
 * acknowledged, and a sink when its rows are written; so after a walk everything from before it is
 * stored. Walks run one at a time, and callers that arrive meanwhile share the next one. While this
 * edge holds events that wait for the log (`isHolding`), nothing counts as stored.
 * Known gap: events that another edge of the installation holds are not visible here. A receipt
 * requested from this edge reports such events as duplicates until they are stored.
 */
export const progressOf = ({ admin, hosts, isHolding }: ProgressPorts): Progress => {
  let throughUntil = 0;
  let running: Promise<boolean> | undefined;
  let next: Promise<boolean> | undefined;

  const walk = async (): Promise<boolean> => {
    const began = Date.now();
    if (isHolding()) return false;
    // Read again for each walk: a stage that was hosted apart a moment ago has written a topic that
    // must be walked too.
    const [asked, hosted] = await Promise.all([admin(), hosts()]);
    for (const hop of hopsToStore(hosted)) if (!(await passes(asked, hop, hosts, began + WALK_MS))) return false;
    throughUntil = Math.max(throughUntil, began - ANSWERED_WITHIN_MS);
    return true;
  };
  const start = (): Promise<boolean> => {
    const walking = walk().finally(() => {
      if (running === walking) running = undefined;
    });
    running = walking;
    return walking;
  };
  /** A walk that begins after this call. */
  const fresh = (): Promise<boolean> => {
    if (running === undefined) return start();
    next ??= running
      .catch(() => false)
      .then(() => {
        next = undefined;
        return start();
      });
    return next;
  };

  return {
    isThrough: async (receivedAt, waitMs) => {
      if (receivedAt <= throughUntil) return true;
      const stopped = new AbortController();
      const walked = fresh();
      // The walk may fail after all callers have stopped waiting.
      walked.catch(() => undefined);
      try {
        return await Promise.race([walked, sleep(waitMs, false, { signal: stopped.signal })]);
      } finally {
        stopped.abort();
      }
    },
  };
};

// Whether everything that was accepted by some moment has gone through all stages and stands in the
// analytics store.
import { setTimeout as sleep } from "node:timers/promises";
import type { Admin } from "../../../infra/kafka/kafka.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { hopsToStore } from "../../log/groups/hops-to-store.ts";
import type { Hop, Hosts } from "../../log/groups/hosts.ts";

/**
 * A request is answered at most this long after it came, so what came earlier is in the log. Four
 * times the longest wait for the log.
 */
const ANSWERED_WITHIN_MS = 30_000;
/** A walk that meets a stage that stands still is given up; the next question begins another. */
const WALK_MS = 60_000;
const ASKED_EVERY_MS = 100;
const HOSTS_EVERY_MS = 1_000;

const isOnTheWay = ({ group, topic }: Hop, hosts: Hosts): boolean =>
  hopsToStore(hosts).some((hop) => hop.group === group && hop.topic === topic);

export interface Progress {
  /**
   * True when whatever was answered before now, of what came at `receivedAt`, is through; false
   * when that is not sure within `waitMs`. Rejects while the log cannot be asked.
   */
  readonly isThrough: (receivedAt: UnixMs, waitMs: number) => Promise<boolean>;
}

export interface ProgressPorts {
  readonly admin: () => Promise<Pick<Admin, "watermarks" | "committed">>;
  readonly hosts: () => Promise<Hosts>;
  /** This edge itself holds events that wait for the log. */
  readonly isHolding: () => boolean;
}

/**
 * True once the group has committed what its topic holds now; false when that takes until `end`, or
 * another group hosts the sink meanwhile, so that this one will never commit it.
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
 * Walks down the way: what the log holds at the beginning, then, once the first group has committed
 * that, what the next topic holds, and so on. A group commits when its outputs are acknowledged, a
 * sink when its rows are written; so at the end everything from before the walk is stored. Walks
 * run one after the other, and who asks meanwhile shares the next. While this edge itself holds
 * events that wait for the log (`isHolding`) nothing is through.
 *
 * Known gap: what another edge of the same installation holds is not seen here; a receipt asked of
 * this one then calls such events duplicates until they are in.
 */
export const progressOf = ({ admin, hosts, isHolding }: ProgressPorts): Progress => {
  let throughUntil = 0;
  let running: Promise<boolean> | undefined;
  let next: Promise<boolean> | undefined;

  const walk = async (): Promise<boolean> => {
    const began = Date.now();
    if (isHolding()) return false;
    // Asked at each walk: what was hosted apart a moment ago writes topics that are read now.
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
      // it may end after everybody who waited has gone
      walked.catch(() => undefined);
      try {
        return await Promise.race([walked, sleep(waitMs, false, { signal: stopped.signal })]);
      } finally {
        stopped.abort();
      }
    },
  };
};

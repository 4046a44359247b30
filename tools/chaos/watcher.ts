// Samples every group's offsets and every process's memory each two seconds while faults happen,
// because some violations only show then.

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { readGroups } from "./hosting.ts";
import type { Target } from "./target.ts";

export interface WatchResult {
  readonly samples: number;
  /** Offsets that went back without a rewind. */
  readonly wentBack: readonly string[];
  /** The longest time that a group stood still while records waited. */
  readonly longestStallMs: number;
  /** The highest resident memory of each app, MiB. */
  readonly memoryMb: Readonly<Record<string, number>>;
}
export interface Watcher {
  readonly stop: () => Promise<WatchResult>;
  /** Offsets of this group may go back until the watcher stops, because of a rewind. */
  readonly forgive: (group: string) => void;
}

const SAMPLE_MS = 2_000;

const memoryOf = (pid: number): number => {
  try {
    return Math.round(Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1_024);
  } catch {
    return 0;
  }
};

export const watch = (target: Target): Watcher => {
  const wentBack: string[] = [];
  const memoryMb: Record<string, number> = {};
  const last = new Map<string, { committed: number; since: number }>();
  const forgiven = new Set<string>();
  let samples = 0;
  let longestStallMs = 0;
  let isStopping = false;

  const look = async (): Promise<void> => {
    for (const name of Object.keys(target.run().apps)) {
      const pid = target.pid(name);
      if (pid !== undefined) memoryMb[name] = Math.max(memoryMb[name] ?? 0, memoryOf(pid));
    }
    await target.withAdmin(async (admin) => {
      for (const { name, topic } of readGroups)
        for (const { partition, committed, lag } of await admin.lag(name, [topic])) {
          const place = `${name} ${topic}/${partition}`;
          const before = last.get(place);
          const now = performance.now();
          if (committed === null) continue;
          if (before !== undefined && committed < before.committed && !forgiven.has(name))
            wentBack.push(`${place} went back from ${before.committed} to ${committed}`);
          if (before === undefined || committed !== before.committed || lag === 0)
            last.set(place, { committed, since: now });
          else longestStallMs = Math.max(longestStallMs, now - before.since);
        }
    });
    samples += 1;
  };
  const running = (async () => {
    while (!isStopping) {
      // Offsets cannot be read while a broker is away.
      await look().catch(() => undefined);
      await sleep(SAMPLE_MS);
    }
  })();
  return {
    forgive: (group) => void forgiven.add(group),
    stop: async () => {
      isStopping = true;
      await running;
      return { samples, wentBack, longestStallMs, memoryMb };
    },
  };
};

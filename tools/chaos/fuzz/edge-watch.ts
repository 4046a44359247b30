// Samples the edge's process every second: its resident memory, and the longest time that its event
// loop was blocked.

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

export interface Sample {
  /** Time since the watch began. */
  readonly atMs: number;
  readonly rssMb: number;
  /** Wall time, which on a busy machine is mostly waiting for a core. */
  readonly lagMs: number;
  /** The part of the lag that was at least its own work: the lag less all waiting for a core. */
  readonly blockedMs: number;
}
export interface EdgeWatch {
  readonly samples: readonly Sample[];
  readonly stop: () => Promise<void>;
}

const EVERY_MS = 1_000;
const LAG = /^nodejs_eventloop_lag_max_seconds\S* ([\d.e-]+)/m;

const rssMb = (pid: number): number =>
  Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1_024;

/** The longest lag since the last call. */
export const longestLagMs = async (opsUrl: string): Promise<number> => {
  const answer = await fetch(`${opsUrl}/metrics`, { signal: AbortSignal.timeout(20_000) });
  return Number(LAG.exec(await answer.text())?.[1] ?? 0) * 1_000;
};

/** The total time that the main thread of a process has waited for a core. */
const waitedMs = (pid: number): number =>
  Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[1]) / 1_000_000;

/** `pid` returns undefined while the process does not run; that sample is left out. */
export const watchEdge = (
  opsUrl: string,
  pid: () => number | undefined,
  onSample: (sample: Sample) => void,
): EdgeWatch => {
  const samples: Sample[] = [];
  const began = performance.now();
  let isStopping = false;
  let lastWaited: number | undefined;
  const look = async (): Promise<void> => {
    const now = pid();
    const longest = await longestLagMs(opsUrl);
    if (now === undefined) return;
    const waited = waitedMs(now);
    const blockedMs = Math.max(0, longest - (lastWaited === undefined ? 0 : waited - lastWaited));
    lastWaited = waited;
    const sample = { atMs: performance.now() - began, rssMb: rssMb(now), lagMs: longest, blockedMs };
    samples.push(sample);
    onSample(sample);
  };
  const running = (async () => {
    while (!isStopping) {
      await look().catch(() => undefined);
      await sleep(EVERY_MS);
    }
  })();
  return {
    samples,
    stop: async () => {
      isStopping = true;
      await running;
    },
  };
};

// Records what a worker hosts before it joins, or as soon as Postgres takes it: receipts, lag and
// alerts ask for it.
import type { Log } from "../../../infra/runtime/log.ts";
import { type Clock, retry } from "../../../infra/runtime/timing/retry.ts";

const MOST_WAIT_MS = 5_000;

/**
 * Resolves when it is recorded, or was tried once: a Postgres that is away keeps no group waiting.
 */
export const recordedSoon = (
  record: () => Promise<void>,
  log: Pick<Log, "warn">,
  group: string,
  signal: AbortSignal,
  clock?: Clock,
): Promise<void> =>
  new Promise((resolve) => {
    const goOn = (error: unknown, tries: number): void => {
      if (tries === 1) log.warn("hosting.not_told", { group, error });
      resolve();
    };
    const settings = { deadlineMs: Number.POSITIVE_INFINITY, maxMs: MOST_WAIT_MS, signal, beforeWait: goOn };
    retry(record, clock === undefined ? settings : { ...settings, clock }).then(resolve, (error) => goOn(error, 1));
  });

// Records what a worker hosts before it joins, or once Postgres is back. Receipts, lag and alerts
// read this record.
import type { Log } from "../../../infra/runtime/log.ts";
import { type Clock, retry } from "../../../infra/runtime/timing/retry.ts";

const MOST_WAIT_MS = 5_000;

/**
 * Resolves after the first try, whether it succeeded or not, because an outage of Postgres must not
 * keep a group waiting. Retries go on in the background until `signal` fires.
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

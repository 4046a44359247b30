// Keeps a snapshot of data in Postgres in memory: it is polled, refreshed after a change, and its
// age is known.
import { setTimeout as sleep } from "node:timers/promises";
import type { UnixMs } from "../../stream/flow.ts";

/** A snapshot and the database time at which it was true. */
export interface SnapshotAt<T> {
  readonly value: T;
  readonly asOf: UnixMs;
}

export interface Snapshot<T> {
  /** The snapshot in use; undefined until the first load. */
  readonly now: () => SnapshotAt<T> | undefined;
  /**
   * Returns a snapshot that is not older than `asOf` in database time, refreshed first if
   * necessary. While the database is away it is the newest one there is, which `staleSince`
   * reveals. Throws when nothing was ever loaded.
   */
  readonly upTo: (asOf: UnixMs) => Promise<SnapshotAt<T>>;
  /**
   * Resolves with true once a snapshot was taken that began after the call. For something that is
   * not in the snapshot: it may be new. Callers share a snapshot, of which ten begin in a second,
   * so that what strangers invent costs little. Resolves with false if there is none, because the
   * database is away or too slow: at once, if that is known. Then what is missing may yet exist.
   */
  readonly again: () => Promise<boolean>;
  /** The database time of the snapshot in use, if the last attempt to refresh it failed. */
  readonly staleSince: () => UnixMs | undefined;
  /**
   * Resolves with the first load. Never rejects, because a process may start before its database.
   */
  readonly ready: Promise<void>;
  readonly close: () => Promise<void>;
}

/** Between two snapshots that `again` begins. */
const REST_MS = 100;
/** The longest wait of `again`, for a database that has just gone away. */
const PATIENCE_MS = 1_000;

/**
 * `take` gets the previous snapshot and returns the next one: a changed one, or the same value with
 * a newer time if nothing changed.
 */
export const keepSnapshot = <T>(
  take: (before: SnapshotAt<T> | undefined) => Promise<SnapshotAt<T>>,
  options: { readonly pollMs: number; readonly onError?: ((error: unknown) => void) | undefined },
): Snapshot<T> => {
  let taken: SnapshotAt<T> | undefined;
  let failure: unknown;
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;
  const loaded = openGate();
  /** A caller of `again` has waited in vain for the refresh under way: others need not. */
  let isLate = false;
  const refresh = oneAtATime(async () => {
    try {
      taken = await take(taken);
      failure = undefined;
      loaded.open();
      return true;
    } catch (error) {
      failure = error ?? new Error("no answer");
      if (!isClosed) options.onError?.(error);
      return false;
    } finally {
      isLate = false;
    }
  });
  const poll = async (): Promise<void> => {
    await refresh.run();
    if (!isClosed) timer = setTimeout(poll, options.pollMs);
  };
  void poll();
  let next: Promise<boolean> | undefined;
  let began = Number.NEGATIVE_INFINITY;
  const takeNext = async (): Promise<boolean> => {
    await sleep(Math.max(0, began + REST_MS - performance.now()), undefined, { ref: false });
    // The one under way may have read before the caller's row was there.
    await refresh.underWay();
    next = undefined;
    began = performance.now();
    return refresh.run();
  };

  return {
    now: () => taken,
    upTo: async (asOf) => {
      const isOld = (): boolean => taken === undefined || taken.asOf < asOf;
      // A refresh under way may have begun before `asOf`; a second one has not. While the database
      // is away only the poll asks it, so that a batch does not wait for a timeout each time.
      for (let tries = 0; tries < 2 && isOld() && !(failure !== undefined && taken !== undefined); tries += 1)
        await refresh.run();
      if (taken === undefined) throw failure;
      return taken;
    },
    again: async () => {
      if (failure !== undefined || isClosed || isLate) return false;
      next ??= takeNext();
      const isTaken = await Promise.race([next, sleep(PATIENCE_MS, "late" as const, { ref: false })]);
      if (isTaken === "late") isLate = refresh.underWay() !== undefined;
      return isTaken === true;
    },
    staleSince: () => (failure === undefined ? undefined : taken?.asOf),
    ready: loaded.opened,
    close: async () => {
      isClosed = true;
      clearTimeout(timer);
      await refresh.underWay();
      loaded.open();
    },
  };
};

const openGate = () => {
  let open: () => void = () => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
};

/** Callers that come while the work is under way share it. */
const oneAtATime = <T>(work: () => Promise<T>) => {
  let underWay: Promise<T> | undefined;
  const run = (): Promise<T> => {
    underWay ??= work().finally(() => {
      underWay = undefined;
    });
    return underWay;
  };
  return { run, underWay: () => underWay };
};

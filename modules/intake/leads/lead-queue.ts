// Collects concurrent pushes: the pushes of one client share a transaction, so that many of them
// cost one commit.
import { classify, Unavailable } from "../../../infra/runtime/errors.ts";
import type { Lead, PushResult } from "./lead-store.ts";

interface QueuedLead {
  readonly lead: Lead;
  readonly bytes: number;
  readonly done: (pushed: PushResult) => void;
  readonly failed: (error: unknown) => void;
}
type Store = (clientId: number, leads: readonly Lead[]) => Promise<readonly PushResult[]>;

const MOST_AT_ONCE = 200;
const BYTES_AT_ONCE = 1024 * 1024;
/**
 * Beyond these limits a push is answered 503. They hold two seconds of pushes at the promised rate.
 */
const MOST_WAITING = 4_000;
const MOST_BYTES = 32 * 1024 * 1024;
/**
 * The connections to Postgres that pushes may use at once, so that some are left for reads of the
 * API.
 */
const MOST_STORES = 3;

export interface LeadQueue {
  /** Resolves when the lead is durable. `bytes` is its approximate size. */
  readonly push: (clientId: number, lead: Lead, bytes: number) => Promise<PushResult>;
}

/**
 * Runs one transaction for each client at a time; the next one takes everything that has arrived
 * meanwhile.
 */
export const openLeadQueue = (store: Store): LeadQueue => {
  const waiting = new Map<number, QueuedLead[]>();
  const busy = new Set<number>();
  let count = 0;
  let held = 0;

  const next = (): void => {
    for (const clientId of waiting.keys()) {
      if (busy.size >= MOST_STORES) return;
      if (!busy.has(clientId)) void work(clientId);
    }
  };
  const work = async (clientId: number): Promise<void> => {
    busy.add(clientId);
    const some = takeSome(waiting, clientId);
    await storeEach(store, clientId, some);
    count -= some.length;
    held -= some.reduce((sum, { bytes }) => sum + bytes, 0);
    busy.delete(clientId);
    next();
  };
  return {
    push: (clientId, lead, bytes) => {
      if (count >= MOST_WAITING || held + bytes > MOST_BYTES)
        throw new Unavailable("too many leads are being stored: send again", 1);
      count += 1;
      held += bytes;
      return new Promise((done, failed) => {
        const own = waiting.get(clientId);
        if (own === undefined) waiting.set(clientId, [{ lead, bytes, done, failed }]);
        else own.push({ lead, bytes, done, failed });
        // Waits for the event loop, so that all pushes that it has already read share a
        // transaction.
        setImmediate(next);
      });
    },
  };
};

/**
 * Takes as many of a client's first pushes as fit into one transaction; the client's remaining
 * pushes go to the end of the queue.
 */
const takeSome = (waiting: Map<number, QueuedLead[]>, clientId: number): readonly QueuedLead[] => {
  const all = waiting.get(clientId)!;
  let bytes = 0;
  let end = 0;
  while (end < all.length && end < MOST_AT_ONCE && (end === 0 || bytes + all[end]!.bytes <= BYTES_AT_ONCE)) {
    bytes += all[end]!.bytes;
    end += 1;
  }
  waiting.delete(clientId);
  if (end < all.length) waiting.set(clientId, all.slice(end));
  return all.slice(0, end);
};

/** A push whose data causes an error must not fail the others. */
const storeEach = async (store: Store, clientId: number, some: readonly QueuedLead[]): Promise<void> => {
  try {
    const stored = await store(
      clientId,
      some.map(({ lead }) => lead),
    );
    for (const [n, { done }] of some.entries()) done(stored[n]!);
  } catch (error) {
    if (some.length === 1 || classify(error) === "transient") for (const { failed } of some) failed(error);
    else for (const one of some) await storeEach(store, clientId, [one]);
  }
};

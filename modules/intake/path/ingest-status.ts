// Reports whether a client's events arrive, and the state of the path into the log.
import type { Pool } from "pg";
import { within } from "../../../infra/runtime/timing/time-limit.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { ingestPath } from "./ingest-path.ts";

/** Screens ask every few seconds: no answer is better than a late one. */
const MOST_MS = 1_500;
const FLOWING_MS = 15 * 60_000;
const STATUS = { operational: "ok", primary_down: "degraded", both_down: "down" } as const;

/**
 * `newestEvent` answers the newest event of the client within so many milliseconds, or rejects. The
 * status is unknown while a store does not answer in time.
 */
export const ingestStatus = async (pool: Pool, newestEvent: (mostMs: number) => Promise<UnixMs | null>) => {
  const known = await Promise.all([
    within(MOST_MS, ingestPath(pool), "the path of events is not known in time"),
    newestEvent(MOST_MS),
  ]).catch(() => undefined);
  if (known === undefined) return { backbone_status: "unknown", events_flowing: false, last_event_at: null };
  const [{ state }, last_event_at] = known;
  const events_flowing = last_event_at !== null && Date.now() - last_event_at <= FLOWING_MS;
  return { backbone_status: state === null ? "unknown" : STATUS[state], events_flowing, last_event_at };
};

// The stamp of an answer with figures: how fresh they are, and until when they may change.
import { formerMonthLockedFrom, lockedFrom } from "../../../domain/calendar.ts";
import type { UnixMs } from "../../../stream/flow.ts";

/** Figures without a newer event are stale from this age on. */
export const STALE_MS = 15 * 60_000;

export interface Stamp {
  readonly as_of: UnixMs;
  readonly freshness: "fresh" | "stale";
  readonly timezone: "America/Mexico_City";
  readonly provisional_until: UnixMs | null;
}

/**
 * The stamp of figures up to the day `to`. `asOf` is the moment up to which the stores are
 * complete, `newest` the newest event of the clients; null when they have none.
 */
export const stampOf = (now: UnixMs, asOf: UnixMs, newest: UnixMs | null, to: string): Stamp => {
  const locked = lockedFrom(to);
  const isFresh = newest !== null && now - newest <= STALE_MS && now - asOf <= STALE_MS;
  return {
    as_of: asOf,
    freshness: isFresh ? "fresh" : "stale",
    timezone: "America/Mexico_City",
    provisional_until: locked > now ? locked : null,
  };
};

/** When the month before that of `now` is locked; null when it already is. */
export const formerMonthLocks = (now: UnixMs): UnixMs | null => {
  const locks = formerMonthLockedFrom(now);
  return now < locks ? locks : null;
};

/** The state of the month before that of `now`. */
export const formerMonthState = (now: UnixMs): "provisional" | "locked" =>
  formerMonthLocks(now) === null ? "locked" : "provisional";

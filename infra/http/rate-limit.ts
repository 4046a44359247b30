// An exact sliding window: no stretch of a minute holds more than the limit, over all processes by
// Redis, in this one without it.
import { Redis } from "ioredis";
import type { Log } from "../runtime/log.ts";

export interface Window {
  readonly limit: number;
  readonly windowMs: number;
}
export interface Verdict {
  readonly isAllowed: boolean;
  /** Requests that are still allowed now. */
  readonly remaining: number;
  /** When the next place becomes free; 0 or more. */
  readonly resetMs: number;
}

/** 1,000 keys of 100 times are about 1 MB. */
const MAX_KEYS = 10_000;

/**
 * The window of this process alone. A `limit` of a key may change from one request to the next.
 * `give` takes back a place that was not used after all.
 */
export interface LocalWindow {
  readonly take: (key: string, now: number, limit?: number) => Verdict;
  readonly give: (key: string, now: number) => void;
}

/**
 * Times in milliseconds of any steady clock. Refused requests take no place. The keys lie in two
 * generations, of which the older one is dropped when the younger one is full: a map of ten
 * thousand keys that forgets one at each call costs 30 to 115 us a call in V8.
 */
export const localWindow = ({ limit: usual, windowMs }: Window): LocalWindow => {
  let younger = new Map<string, number[]>();
  let older = younger;
  const timesOf = (key: string): number[] => {
    const known = younger.get(key);
    if (known !== undefined) return known;
    if (younger.size >= MAX_KEYS / 2) [older, younger] = [younger, new Map()];
    const times = older.get(key) ?? [];
    younger.set(key, times);
    return times;
  };
  return {
    take: (key, now, limit = usual) => {
      const times = timesOf(key);
      // a place is free again only when its minute is wholly over: both ends of the stretch count
      while (times.length > 0 && now - times[0]! > windowMs) times.shift();
      const isAllowed = times.length < limit;
      if (isAllowed) times.push(now);
      // of those beyond a limit that was lowered, as many must end first
      const next = times[Math.max(0, times.length - limit)]!;
      return {
        isAllowed,
        remaining: Math.max(0, limit - times.length),
        resetMs: Math.max(0, windowMs - (now - next)),
      };
    },
    give: (key, now) => {
      const times = younger.get(key) ?? older.get(key);
      const place = times?.lastIndexOf(now) ?? -1;
      if (place >= 0) times!.splice(place, 1);
    },
  };
};

/**
 * Redis keeps the times of the requests that were let through, newest first, and drops those whose
 * window is over; its own clock counts, so clocks of processes do not matter. Answers {allowed,
 * remaining, microseconds until a place is free}.
 */
const SCRIPT = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2]) * 1000
local oldest = redis.call('LINDEX', KEYS[1], -1)
while oldest and now - oldest > window do
  redis.call('RPOP', KEYS[1])
  oldest = redis.call('LINDEX', KEYS[1], -1)
end
local count = redis.call('LLEN', KEYS[1])
if count >= limit then return {0, 0, window - (now - redis.call('LINDEX', KEYS[1], limit - 1))} end
redis.call('LPUSH', KEYS[1], string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], ARGV[2] + 1000)
return {1, limit - count - 1, window - (now - (oldest or now))}`;

/** Longer than any healthy answer; a request waits this long once a second while Redis hangs. */
const COMMAND_MS = 250;
const AWAY_MS = 1_000;

export interface RateLimit {
  /** `limit` where a key has one of its own. */
  readonly take: (key: string, limit?: number) => Promise<Verdict>;
  /** For the health report. Throws when Redis does not answer. */
  readonly ping: () => Promise<void>;
  readonly close: () => void;
}

interface WindowCommand {
  readonly slidingWindow: (key: string, limit: number, windowMs: number) => Promise<[number, number, number]>;
}

/** Opens Redis in the background: without it every process counts for itself, and exactly so. */
export const openRateLimit = (url: string, window: Window, log: Log): RateLimit => {
  const redis = new Redis(url, {
    maxRetriesPerRequest: 1,
    enableOfflineQueue: false,
    // Requests that arrive together take their places in one write.
    enableAutoPipelining: true,
    commandTimeout: COMMAND_MS,
    connectTimeout: 2_000,
  });
  // Each failed connection tells; the state of Redis is in /health, a line a second would say no
  // more.
  redis.on("error", (error) => log.debug("redis.error", { error }));
  redis.defineCommand("slidingWindow", { numberOfKeys: 1, lua: SCRIPT });
  const shared = redis as unknown as WindowCommand;
  const local = localWindow(window);
  let awayUntil = 0;

  return {
    // Both windows must have a place: the local one still knows what it let through while Redis was
    // away.
    take: async (key, limit = window.limit) => {
      const now = performance.now();
      const here = local.take(key, now, limit);
      if (!here.isAllowed || now < awayUntil) return here;
      try {
        const [allowed, remaining, resetMicros] = await shared.slidingWindow(`rate:${key}`, limit, window.windowMs);
        if (allowed === 0) local.give(key, now);
        return {
          isAllowed: allowed === 1,
          remaining: Math.min(remaining, here.remaining),
          resetMs: Math.max(0, resetMicros / 1_000),
        };
      } catch (error) {
        if (awayUntil === 0 || now - awayUntil > AWAY_MS) log.warn("rate_limit.local", { error });
        awayUntil = performance.now() + AWAY_MS;
        return here;
      }
    },
    ping: async () => {
      await redis.ping();
    },
    close: () => redis.disconnect(),
  };
};

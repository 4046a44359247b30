// An exact sliding window: no stretch of a minute holds more requests than the limit. Redis counts
// for all processes; without it, each process counts for itself.
import { Redis } from "ioredis";
import type { Log } from "../runtime/log.ts";

export interface Window {
  readonly limit: number;
  readonly windowMs: number;
}
export interface Verdict {
  readonly isAllowed: boolean;
  /** Requests that are allowed now. */
  readonly remaining: number;
  /** Milliseconds until the next place becomes free; 0 or more. */
  readonly resetMs: number;
}

/** 1,000 keys of 100 times are about 1 MB. */
const MAX_KEYS = 10_000;

/**
 * The window of this process alone. The `limit` of a key may change from one request to the next.
 * `give` returns a place that was not used after all.
 */
export interface LocalWindow {
  readonly take: (key: string, now: number, limit?: number) => Verdict;
  readonly give: (key: string, now: number) => void;
}

/**
 * Times are milliseconds of any steady clock. Refused requests take no place. The keys are in two
 * generations, and the older one is dropped when the younger one is full: a map of ten thousand
 * keys that forgets one key at each call costs 30 to 115 us a call in V8.
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
      // A place is free again only when its minute is over completely: both ends of the stretch
      // count.
      while (times.length > 0 && now - times[0]! > windowMs) times.shift();
      const isAllowed = times.length < limit;
      if (isAllowed) times.push(now);
      // If the limit was lowered, as many times as are above it must end first.
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
 * Redis keeps the times of the accepted requests, newest first, and drops those whose window is
 * over. Its own clock counts, so the clocks of processes do not matter. Each key of the call takes
 * a place, one after the other. The answer is one list with {allowed, remaining, microseconds until
 * a place is free} for each key.
 */
const SCRIPT = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local window = tonumber(ARGV[1]) * 1000
local answers = {}
local function answer(...)
  for _, number in ipairs({...}) do answers[#answers + 1] = number end
end
for n, key in ipairs(KEYS) do
  local limit = tonumber(ARGV[n + 1])
  local oldest = redis.call('LINDEX', key, -1)
  while oldest and now - oldest > window do
    redis.call('RPOP', key)
    oldest = redis.call('LINDEX', key, -1)
  end
  local count = redis.call('LLEN', key)
  if count >= limit then
    answer(0, 0, window - (now - redis.call('LINDEX', key, limit - 1)))
  else
    redis.call('LPUSH', key, string.format('%.0f', now))
    redis.call('PEXPIRE', key, ARGV[1] + 1000)
    answer(1, limit - count - 1, window - (now - (oldest or now)))
  end
end
return answers`;
const NUMBERS_A_KEY = 3;
/** Each takes about 5 us in Redis, which answers no other call meanwhile. */
const MOST_IN_A_CALL = 256;

/** Longer than any healthy answer; a request waits this long once a second while Redis hangs. */
const COMMAND_MS = 250;
const AWAY_MS = 1_000;

export interface RateLimit {
  /** `limit` replaces the limit of the window for a key that has its own. */
  readonly take: (key: string, limit?: number) => Promise<Verdict>;
  /** Checks Redis for the health report. Throws if Redis does not answer. */
  readonly ping: () => Promise<void>;
  readonly close: () => void;
}

interface WindowCommand {
  readonly slidingWindows: (
    keys: number,
    ...keysWindowLimits: readonly (string | number)[]
  ) => Promise<readonly number[]>;
}
type Answer = readonly [allowed: number, remaining: number, resetMicros: number];
interface LimitQuestion {
  readonly key: string;
  readonly limit: number;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Requests that arrive together, or while a call is under way, take their places in one call: a
 * command of the client, with its timer, its promises and its round trip, costs more than the rest
 * of a place.
 */
const inSharedCalls = (redis: WindowCommand, windowMs: number) => {
  let waiting: LimitQuestion[] = [];
  let isDue = false;
  const call = async (): Promise<void> => {
    while (waiting.length > 0) {
      const asked = waiting.splice(0, MOST_IN_A_CALL);
      const keys = asked.map(({ key }) => `rate:${key}`);
      const limits = asked.map(({ limit }) => limit);
      try {
        const answers = await redis.slidingWindows(keys.length, ...keys, windowMs, ...limits);
        for (const [n, { resolve }] of asked.entries()) {
          const at = n * NUMBERS_A_KEY;
          resolve([answers[at]!, answers[at + 1]!, answers[at + 2]!]);
        }
      } catch (error) {
        // Requests that came meanwhile would wait for a Redis that is away.
        for (const { reject } of [...asked, ...waiting]) reject(error);
        waiting = [];
      }
    }
    isDue = false;
  };
  return (key: string, limit: number): Promise<Answer> =>
    new Promise((resolve, reject) => {
      waiting.push({ key, limit, resolve, reject });
      if (isDue) return;
      isDue = true;
      setImmediate(() => void call());
    });
};

/** Opens Redis in the background. Without it every process counts for itself, exactly. */
export const openRateLimit = (url: string, window: Window, log: Log): RateLimit => {
  const redis = new Redis(url, {
    maxRetriesPerRequest: 1,
    enableOfflineQueue: false,
    commandTimeout: COMMAND_MS,
    connectTimeout: 2_000,
  });
  // Each failed connection emits an error. The state of Redis is in /health, and a log line a
  // second would add nothing.
  redis.on("error", (error) => log.debug("redis.error", { error }));
  redis.defineCommand("slidingWindows", { lua: SCRIPT });
  const shared = inSharedCalls(redis as unknown as WindowCommand, window.windowMs);
  const local = localWindow(window);
  let awayUntil = 0;

  return {
    // Both windows must have a place: the local one counts requests that were accepted while Redis
    // was away.
    take: async (key, limit = window.limit) => {
      const now = performance.now();
      const here = local.take(key, now, limit);
      if (!here.isAllowed || now < awayUntil) return here;
      try {
        const [allowed, remaining, resetMicros] = await shared(key, limit);
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

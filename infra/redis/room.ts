// Watches the room that Redis has for hints. When it fills up, first no more hints are written,
// then hints are dropped, so that they never cost fast memory its room: it shares the server, and a
// stage cannot work without it.
import type { Redis } from "ioredis";
import type { Log } from "../runtime/log.ts";
import type { Resource } from "../runtime/scope.ts";
import { openRounds } from "../runtime/timing/rounds.ts";

/** Writers of hints check it before they write, and report hints that were not written. */
export interface HintRoom {
  /** False when Redis is nearly full: no more hints are written. */
  readonly has: () => boolean;
  /** Counts members of sets and answers that were not stored. */
  readonly shed: (what: "members" | "answers", count: number) => void;
}

/** Room without a bound, for tests of the hints themselves. */
export const roomWithoutBound: HintRoom = { has: () => true, shed: () => undefined };

/** The share of `maxmemory` from which no hint is written. */
const STOP = 0.75;
/** The share from which hints are dropped, until no more than STOP is used. */
const DROP = 0.9;
const EVERY_MS = 1_000;
/**
 * The time limit of one round: long enough to drop the keys that arrive within a second, and short
 * compared with a step's deadline.
 */
const ROUND_MS = 500;
const SCANNED = 1_000;

/** The answer of Redis that it is full. */
export const isFull = (error: unknown): boolean => error instanceof Error && error.message.startsWith("OOM ");

const numberOf = (info: string, name: string): number =>
  Number(new RegExp(`^${name}:(\\d+)`, "m").exec(info)?.[1] ?? 0);

/** The share of its memory that Redis uses; 0 where it has no bound. */
const usedShare = async (redis: Redis): Promise<number> => {
  const info = await redis.info("memory");
  const most = numberOf(info, "maxmemory");
  return most === 0 ? 0 : numberOf(info, "used_memory") / most;
};

export interface RoomSettings {
  readonly redis: Redis;
  /** The prefixes of the keys of hints; all keys with them may be dropped. */
  readonly prefixes: readonly string[];
  /** Called with the number of hints that were not written or were dropped. */
  readonly count: (what: "members" | "answers" | "keys", count: number) => void;
  readonly log: Log;
}

/** Checks once a second how full Redis is, and makes room when it is nearly full. */
export const openHintRoom = ({ redis, prefixes, count, log }: RoomSettings): Resource<HintRoom> => {
  let used = 0;
  const cursors = new Map(prefixes.map((prefix) => [prefix, "0"]));
  const dropSome = async (): Promise<void> => {
    for (const [prefix, cursor] of cursors) {
      const pattern = `${prefix.replace(/[\\*?[\]^-]/g, "\\$&")}*`;
      const [next, keys] = await redis.scan(cursor, "MATCH", pattern, "COUNT", SCANNED);
      cursors.set(prefix, next);
      if (keys.length > 0) count("keys", await redis.unlink(...keys));
    }
  };
  const rounds = openRounds({
    everyMs: EVERY_MS,
    round: async () => {
      used = await usedShare(redis);
      if (used < DROP) return;
      log.warn("hints.dropped", { used });
      for (const end = performance.now() + ROUND_MS; used >= STOP && performance.now() < end; ) {
        await dropSome();
        used = await usedShare(redis);
      }
    },
    onFailure: (error) => log.debug("hints.room_unknown", { error }),
  });
  return { value: { has: () => used < STOP, shed: count }, stop: rounds.stop };
};

// How a sink's rows get into Redis: members of sets, one round trip a write. Losing them costs
// hints, never money.
import type { Redis } from "ioredis";
import type { Write } from "../../stream/flow.ts";
import type { VelocityRow } from "../velocity/velocity.ts";

/**
 * A day more than the log: whatever a rewind can read again still finds what it found
 * (docs/design/money.md, "Facts").
 */
export const hintLifetimeSeconds = 8 * 86_400;
/** Of a device or a person the newest count; the rest would only make a hot key grow. */
const newestKept = 50;

export interface RedisStore {
  /**
   * Runs `work`; each of its writes is one round trip. Members are idempotent, so neither tenants
   * nor `token` are of use here.
   */
  readonly within: (
    batch: { readonly tenants: readonly number[]; readonly token: string },
    work: (write: Write) => Promise<void>,
  ) => Promise<void>;
}

/** Where the set of that name lies. */
export const velocityKey = (prefix: string, set: string): string => `${prefix}:velocity:${set}`;

/** `prefix` keeps environments apart that share a server. Throws the first command that failed. */
export const redisStore = (redis: Redis, prefix = "tributary"): RedisStore => ({
  within: (_, work) =>
    work(async (table, rows) => {
      if (table !== "velocity") throw new Error(`Redis has no table ${table} that a sink writes`);
      const commands = redis.pipeline();
      const touched = new Set<string>();
      const ordered = new Set<string>();
      for (const { set, member, at } of rows as readonly VelocityRow[]) {
        const key = velocityKey(prefix, set);
        touched.add(key);
        if (at === null) commands.sadd(key, member);
        else {
          // A later sight of a member moves it up, an earlier one changes nothing.
          commands.zadd(key, "GT", at, member);
          ordered.add(key);
        }
      }
      for (const key of ordered) commands.zremrangebyrank(key, 0, -1 - newestKept);
      for (const key of touched) commands.expire(key, hintLifetimeSeconds);
      for (const [error] of (await commands.exec()) ?? []) if (error !== null) throw error;
    }),
});

// Fast memory: a hash for each key, with one field for each event that changed it. Losing it costs
// only time, because stages relearn from the log.
import { randomUUID } from "node:crypto";
import type { ChainableCommander, Redis } from "ioredis";
import type { LoadedMemory, Memory, Version } from "../../stream/memory/memory.ts";

/**
 * The newest version of a key lives as long as the longest attribution window
 * (docs/design/architecture.md, "Memory").
 */
const LIFETIME_SECONDS = 90 * 86_400;
/** No event has the empty id: this field holds the highest offset whose versions were deleted. */
const TRUNCATED = "";
const OFFSET_BYTES = 8;

const encode = (offset: number, value: Uint8Array): Buffer => {
  const bytes = Buffer.allocUnsafe(OFFSET_BYTES + value.length);
  bytes.writeDoubleBE(offset);
  bytes.set(value, OFFSET_BYTES);
  return bytes;
};
const versionOf = (eventId: string, bytes: Buffer): Version => ({
  eventId,
  offset: bytes.readDoubleBE(),
  version: 0,
  value: bytes.subarray(OFFSET_BYTES),
});

/** The values of each key, oldest first, from its hash. */
const valuesOf = (
  keys: readonly string[],
  hashes: readonly Record<string, Buffer>[],
): Pick<LoadedMemory, "versions" | "truncated"> => {
  const versions = new Map<string, readonly Version[]>();
  const truncated = new Map<string, number>();
  for (const [n, hash] of hashes.entries()) {
    const fields = Object.entries(hash);
    if (fields.length === 0) continue;
    const kept = fields.flatMap(([eventId, bytes]) => (eventId === TRUNCATED ? [] : versionOf(eventId, bytes)));
    versions.set(
      keys[n]!,
      kept.sort((a, b) => a.offset - b.offset),
    );
    if (hash[TRUNCATED] !== undefined) truncated.set(keys[n]!, Number(String(hash[TRUNCATED])));
  }
  return { versions, truncated };
};

/** Sends all commands in one round trip; the first error is thrown. */
const sent = async (commands: ChainableCommander): Promise<readonly unknown[]> =>
  ((await commands.exec()) ?? []).map(([error, answer]) => {
    if (error !== null) throw error;
    return answer;
  });

/**
 * A mark says that everything before it is there, so it may only be set on the memory that was
 * loaded from: a memory that was emptied in between (its epoch differs) would seem complete from
 * then on. It is one step, so that nothing comes between the check and the write. A mark never
 * moves back, which an owner that was overtaken would cause.
 */
const MARK =
  `if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end redis.call("zadd", KEYS[2], "GT", ` +
  "ARGV[2], ARGV[3]) return 1";

/**
 * `prefix` separates environments that share a server. Record keys begin with the client, so no
 * hash has values of two clients.
 */
export const redisMemory = (redis: Redis, prefix = "memory"): Memory => {
  const hashOf = (stage: string, key: string): string => `${prefix}:${stage}:${key}`;
  const marksOf = (stage: string): string => `${prefix}:${stage}`;
  /** Chosen by the worker that first loads from an empty memory. */
  const epochOf = (stage: string): string => `${prefix}:${stage}#birth`;
  /** For each stage and partition, the epoch of the memory that was last loaded from. */
  const loadedFrom = new Map<string, string>();
  const placeOf = (stage: string, topic: string, partition: number): string => `${stage} ${topic}/${partition}`;

  return {
    load: async ({ stage, keys, topic, partition }): Promise<LoadedMemory> => {
      // The epoch is read before everything else: if the memory is emptied after that, `remember`
      // notices.
      const commands = redis
        .pipeline()
        .set(epochOf(stage), randomUUID(), "NX")
        .get(epochOf(stage))
        .zscore(marksOf(stage), `${topic}/${partition}`);
      for (const key of keys) commands.hgetallBuffer(hashOf(stage, key));
      type Answers = [unknown, string | null, string | null, ...Record<string, Buffer>[]];
      const [, epoch, mark, ...hashes] = (await sent(commands)) as Answers;
      loadedFrom.set(placeOf(stage, topic, partition), epoch ?? "");
      return { ...valuesOf(keys, hashes), outcomes: new Map(), mark: mark === null ? null : Number(mark) };
    },

    remember: async (batch) => {
      const commands = redis.pipeline();
      const ends: number[] = [];
      const isChecked: boolean[] = [];
      for (const { stage, topic, partition, mark, changes, forgets } of batch) {
        for (const { key, eventId, offset, value } of changes)
          commands.hsetnx(hashOf(stage, key), eventId, encode(offset, value));
        for (const key of new Set(changes.map((change) => change.key)))
          commands.expire(hashOf(stage, key), LIFETIME_SECONDS);
        for (const { key, eventIds, before } of forgets)
          commands.hdel(hashOf(stage, key), ...eventIds).hset(hashOf(stage, key), TRUNCATED, before);
        // The mark comes last, because it says that everything before it is there.
        const epoch = loadedFrom.get(placeOf(stage, topic, partition));
        if (epoch === undefined) commands.zadd(marksOf(stage), "GT", mark, `${topic}/${partition}`);
        else commands.eval(MARK, 2, epochOf(stage), marksOf(stage), epoch, mark, `${topic}/${partition}`);
        isChecked.push(epoch !== undefined);
        ends.push(commands.length - 1);
      }
      const answers = await sent(commands);
      if (ends.some((end, n) => isChecked[n] && answers[end] === 0)) return "lost";
      return "remembered";
    },
  };
};

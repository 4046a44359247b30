// Erases a subject from Redis: what stages remember of its devices, and the sets that hints are
// counted from.
import type { Redis } from "ioredis";
import { sets, velocityKey } from "../../../sinks/velocity/table.ts";
import { pipeline } from "../../../topology.ts";
import { type ErasureTarget, peopleOf } from "./target.ts";

export interface RedisPlace {
  readonly redis: Redis;
  /** As the workers of the installation use them. */
  readonly memoryPrefix: string;
  readonly hintPrefix: string;
}

/** Keys that go whole, and members that leave a set of others. */
export interface FoundInRedis {
  readonly keys: readonly string[];
  readonly members: readonly { readonly key: string; readonly member: string; readonly isSorted: boolean }[];
}

const SCANNED = 1_000;
const AT_ONCE = 500;

/** Stages that remember by device. */
const stages = pipeline.nodes.flatMap((node) =>
  node.is === "stage" && node.memory?.driver === "fast" ? [node.name] : [],
);

/**
 * Looks through the sets of the client's persons, because nothing says any more which of them the
 * devices belonged to.
 */
export const findInRedis = async (
  { redis, memoryPrefix, hintPrefix }: RedisPlace,
  target: ErasureTarget,
): Promise<FoundInRedis> => {
  const { clientId, devices } = target;
  const velocity = (set: string): string => velocityKey(hintPrefix, set);
  const clicks = devices.map((did) => velocity(sets.clicksOf(clientId, did)));
  const own = [
    ...devices.flatMap((did) => stages.map((stage) => `${memoryPrefix}:${stage}:${clientId}:${did}`)),
    ...clicks,
    ...peopleOf(target).flatMap((hash) =>
      ["email", "phone"].map((kind) => velocity(sets.devicesOfPerson(clientId, `${kind}:${hash}`))),
    ),
  ];
  const keys = await answered(redis, own, "exists").then((found) => own.filter((_, n) => found[n] === 1));
  const clickIds = (await Promise.all(clicks.map((key) => redis.zrange(key, "0", "-1")))).flat();
  const ofClicks = clickIds.map((clickId) => velocity(sets.devicesOf(clientId, clickId)));
  const persons = devices.length === 0 ? [] : await personsIn(redis, velocity(sets.devicesOfPerson(clientId, "")));
  const candidates = [
    ...ofClicks.flatMap((key) => devices.map((member) => ({ key, member, isSorted: false }))),
    ...persons.flatMap((key) => devices.map((member) => ({ key, member, isSorted: true }))),
  ];
  return { keys, members: await present(redis, candidates) };
};

const answered = async (redis: Redis, keys: readonly string[], command: string): Promise<readonly unknown[]> =>
  keys.length === 0 ? [] : results(await redis.pipeline(keys.map((key) => [command, key])).exec());

const results = (answers: readonly (readonly [Error | null, unknown])[] | null): readonly unknown[] =>
  (answers ?? []).map(([error, answer]) => {
    if (error !== null) throw error;
    return answer;
  });

const personsIn = async (redis: Redis, prefix: string): Promise<readonly string[]> => {
  const pattern = `${prefix.replace(/[\\*?[\]^-]/g, (sign) => `\\${sign}`)}*`;
  const found = new Set<string>();
  let cursor = "0";
  do {
    const [next, keys] = await redis.scan(cursor, "MATCH", pattern, "COUNT", SCANNED);
    for (const key of keys) found.add(key);
    cursor = next;
  } while (cursor !== "0");
  return [...found].sort();
};

const present = async (redis: Redis, members: FoundInRedis["members"]): Promise<FoundInRedis["members"]> => {
  const found: FoundInRedis["members"][number][] = [];
  for (let at = 0; at < members.length; at += AT_ONCE) {
    const some = members.slice(at, at + AT_ONCE);
    const commands = some.map(({ key, member, isSorted }) => [isSorted ? "zscore" : "sismember", key, member]);
    const answers = results(await redis.pipeline(commands).exec());
    found.push(...some.filter((_, n) => answers[n] !== null && answers[n] !== 0));
  }
  return found;
};

/** Members leave before the keys by which they were found. */
export const eraseInRedis = async (redis: Redis, { keys, members }: FoundInRedis): Promise<void> => {
  const commands = [
    ...members.map(({ key, member, isSorted }) => [isSorted ? "zrem" : "srem", key, member]),
    ...keys.map((key) => ["unlink", key]),
  ];
  for (let at = 0; at < commands.length; at += AT_ONCE)
    results(await redis.pipeline(commands.slice(at, at + AT_ONCE)).exec());
};

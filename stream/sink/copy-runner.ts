// Copies the records of a topic as they lie: a file at a time, and a partition rests while the log
// gathers its next one.
import type { AnyCopy, Position } from "../flow.ts";
import type { Control, CopyPorts, FetchedBatch } from "../messages.ts";
import { countStop, logStop } from "../stop.ts";

/**
 * A file is closed within 60 s of its first record: this rest, the second of a fetch, and up to 4 s
 * to compress and store it.
 */
const GATHER_MS = 55_000;
/** Another member is just storing the same records. */
const AGAIN_MS = 5_000;
/**
 * While the store is away: doubled with each failure, and short enough that an outage ends soon.
 */
const LONGEST_REST_MS = 30_000;
/** A partition that has not failed again for so long belongs to another member by now. */
const FORGOTTEN_MS = 120_000;

/**
 * The function that a consumer calls for each batch. Rejects only when the log itself fails: while
 * the files' store is away, or refuses us, nothing is lost, the offset stands, and whatever else
 * this process hosts goes on.
 */
export const copyRunner = (copy: AnyCopy, ports: CopyPorts, gatherMs = GATHER_MS) => {
  const { keep, retry, countWrite } = ports;
  const outage = outageOf(copy, ports);
  return async (batch: FetchedBatch, control: Control): Promise<void> => {
    const { topic, partition, messages, highWatermark } = batch;
    const [first] = messages;
    const startedAt = performance.now();
    let next: number;
    try {
      // 1 store. Dying in it costs a second storing of the same files, see sinks/archive/write.ts.
      next = await keep(batch, control.heartbeat);
    } catch (error) {
      if (!control.isCurrent()) throw error;
      return control.rest(await outage.failed({ topic, partition, offset: first!.offset }, error));
    }
    outage.stored(partition);
    await control.heartbeat();
    if (!control.isCurrent()) return;
    if (next <= first!.offset) return control.rest(AGAIN_MS);
    // 2 commit. Dying before it costs the same; the files that stand are found and left alone.
    await retry("commit", () => control.commit(Math.min(next, messages.at(-1)!.offset + 1)), control.heartbeat);
    // 3 count.
    const stored = messages.filter(({ offset }) => offset < next);
    const receivedAt = stored.map(({ appendedAt }) => appendedAt);
    const seconds = (performance.now() - startedAt) / 1_000;
    countWrite({ sink: copy.name, table: copy.into.name, rows: stored.length, rejected: 0, seconds, receivedAt });
    if (next >= highWatermark) control.rest(gatherMs);
  };
};

/**
 * One outage of all partitions: logged when it begins, once more when an operator must look, and
 * when the last partition that failed is stored again.
 */
const outageOf = (copy: AnyCopy, { stops, log }: Pick<CopyPorts, "stops" | "log">) => {
  const failing = new Map<number, { readonly times: number; readonly at: number }>();
  let isReported = false;
  let isAlerted = false;
  return {
    /** How long the partition rests. */
    failed: async (at: Position, error: unknown): Promise<number> => {
      const now = performance.now();
      for (const [partition, last] of failing) if (now - last.at > FORGOTTEN_MS) failing.delete(partition);
      if (failing.size === 0) [isReported, isAlerted] = [false, false];
      const times = (failing.get(at.partition)?.times ?? 0) + 1;
      failing.set(at.partition, { times, at: now });
      if (!isAlerted) {
        const stop = await countStop({ stops }, copy.name, at, error);
        if (stop.isStuck ? !isAlerted : !isReported) logStop(log, stop);
        isReported = true;
        isAlerted ||= stop.isStuck;
      }
      return Math.min(LONGEST_REST_MS, AGAIN_MS * 2 ** (times - 1));
    },
    stored: (partition: number): void => {
      if (failing.delete(partition) && failing.size === 0) log.info("copy.recovered", { stage: copy.name });
    },
  };
};

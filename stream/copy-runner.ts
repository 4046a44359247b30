// Copies the records of a topic as they lie: a file at a time, and a partition rests while the log
// gathers its next one.
import type { AnyCopy } from "./flow.ts";
import type { CopiedBatch, CopyControl, CopyPorts } from "./messages.ts";
import { reportStop } from "./stop.ts";

/**
 * A file is closed within 60 s of its first record: this rest, the second of a fetch, and up to 4 s
 * to compress and store it.
 */
const GATHER_MS = 55_000;
/** A store that is away, or another member that is just storing the same records. */
const AGAIN_MS = 5_000;

/**
 * The function that a consumer calls for each batch. Rejects only when the log itself fails: while
 * the files' store is away, or refuses us, nothing is lost, the offset stands, and whatever else
 * this process hosts goes on. An operator is called like for any reader that keeps stopping at a
 * message.
 */
export const copyRunner =
  (copy: AnyCopy, { keep, retry, stops, log, countWrite }: CopyPorts, gatherMs = GATHER_MS) =>
  async (batch: CopiedBatch, control: CopyControl): Promise<void> => {
    const { topic, partition, messages, highWatermark } = batch;
    const [first] = messages;
    const startedAt = performance.now();
    let next: number;
    try {
      // 1 store. Dying in it costs a second storing of the same files, see sinks/archive/write.ts.
      next = await keep(batch, control.heartbeat);
    } catch (error) {
      if (!control.isCurrent()) throw error;
      await reportStop({ stops, log }, copy.name, { topic, partition, offset: first!.offset }, error);
      return control.rest(AGAIN_MS);
    }
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

// Hands a fetched batch over in pieces while the whole of it takes longer than a time limit allows,
// e.g. on a starved machine.
import type { Control, InputBatch } from "../messages.ts";
import type { LogPorts } from "../ports.ts";

/** A step of a batch was ended by its time limit. A smaller batch may stay within it. */
export class SlowBatch extends Error {
  readonly verdict = "fatal";
  constructor(step: string, cause: unknown) {
    super(`${step}: ${cause instanceof Error ? cause.message : cause}`, { cause });
    this.name = "SlowBatch";
  }
}

/**
 * Runs a batch, whole or in pieces, in the order of the log. A piece that ends by a time limit is
 * tried again with half of its records, down to one; after some successes the size doubles until it
 * is that of the whole batch again. Returns early when the partition is lost, or the consumer
 * stops.
 */
export type Pieces = (batch: InputBatch, control: Control, run: (piece: InputBatch) => Promise<void>) => Promise<void>;

/**
 * If the larger size is still too slow, its try is lost. Eight pieces before it keep the loss to a
 * fifth of the work, and a partition at one record is back at 8,000 after a hundred pieces.
 */
const SUCCESSES_TO_GROW = 8;
/**
 * A member that was silent for a session loses its partitions. Up to a third of the session may have
 * passed without a heartbeat before the batch began.
 */
const LONG_SHARE = 0.5;

interface Size {
  most: number;
  /** The number of records that were first too many. */
  readonly whole: number;
  successes: number;
}

/**
 * The sizes last as long as the result, so a membership that a slow batch has cost does not begin
 * with the whole batch again. `reader` is the name in the log.
 */
export const openPieces = (
  reader: string,
  { log }: Pick<LogPorts, "log">,
  now: () => number = () => performance.now(),
): Pieces => {
  const sizes = new Map<number, Size>();

  const halve = ({ topic, partition, messages }: InputBatch, limit: string): void => {
    const { length } = messages;
    if (length === 1) return;
    const most = Math.ceil(length / 2);
    sizes.set(partition, { most, whole: Math.max(length, sizes.get(partition)?.whole ?? 0), successes: 0 });
    log.warn("batch.slow", { stage: reader, topic, partition, offset: messages[0]!.offset, records: most, limit });
  };
  const grow = ({ topic, partition }: InputBatch): void => {
    const size = sizes.get(partition);
    if (size === undefined || ++size.successes < SUCCESSES_TO_GROW) return;
    size.successes = 0;
    size.most *= 2;
    if (size.most < size.whole) return;
    sizes.delete(partition);
    log.info("batch.recovered", { stage: reader, topic, partition });
  };
  /** Any rebalance takes partitions away; only a batch that went on for long is too large. */
  const lost = (piece: InputBatch, startedAt: number, sessionMs = Number.POSITIVE_INFINITY): void => {
    if (now() - startedAt >= LONG_SHARE * sessionMs) halve(piece, `the session of ${sessionMs / 1_000} s`);
  };

  return async (batch, control, run) => {
    for (let left = batch.messages; left.length > 0; ) {
      const most = sizes.get(batch.partition)?.most ?? left.length;
      const piece = most < batch.messages.length ? { ...batch, messages: left.slice(0, most) } : batch;
      const startedAt = now();
      let isSlow = false;
      try {
        await run(piece);
      } catch (error) {
        isSlow = error instanceof SlowBatch;
        if (isSlow) halve(piece, (error as SlowBatch).message);
        else if (!control.isCurrent()) lost(piece, startedAt, control.sessionMs);
        if (!isSlow) throw error;
        await control.heartbeat();
      }
      if (!control.isCurrent()) return isSlow ? undefined : lost(piece, startedAt, control.sessionMs);
      if (!isSlow) {
        grow(batch);
        left = left.slice(most);
      }
      if (control.isStopping?.()) return;
    }
  };
};

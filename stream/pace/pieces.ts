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
 * tried again with its first record, and behind that with half of its records, down to one; after
 * some successes the size doubles until it is that of the whole batch again. Returns early when a
 * piece was left, the partition is lost, or the consumer stops.
 */
export type Pieces = (batch: InputBatch, control: Control, run: RunPiece) => Promise<void>;
/**
 * Resolves to false if it has left the piece: then nothing behind it may be committed. That cannot
 * be asked of the control, because a member that was silent is current again after a heartbeat.
 */
type RunPiece = (piece: InputBatch) => Promise<boolean>;

/**
 * If the larger size is still too slow, its try is lost. Eight pieces before it keep the loss to a
 * fifth of the work, and a reader at one record of 8,000 is back after a hundred pieces.
 */
const SUCCESSES_TO_GROW = 8;
/**
 * A member that was silent for a session loses its partitions. Up to a third of the session may
 * have passed without a heartbeat before the batch began.
 */
const LONG_SHARE = 0.5;

/**
 * One share holds for all partitions of the reader: what makes a batch slow, its machine or its
 * store, is the same for all, and a try that is lost with its membership costs half a minute. It
 * lasts as long as the result, so that the next membership does not begin with the whole batch
 * again. `reader` is the name in the log.
 */
export const openPieces = (
  reader: string,
  { log }: Pick<LogPorts, "log">,
  now: () => number = () => performance.now(),
): Pieces => {
  /** A piece is a batch divided by it: a power of two. */
  let divisor = 1;
  let successes = 0;
  let countedAt = Number.NEGATIVE_INFINITY;

  /** Batches that were tried together, with the same divisor, are halved once. */
  const halve = ({ topic, partition, messages }: InputBatch, triedWith: number, limit: string): void => {
    successes = 0;
    if (messages.length === 1 || divisor > triedWith) return;
    divisor = 2 * triedWith;
    const { length } = messages;
    const place = { topic, partition, offset: messages[0]!.offset };
    log.warn("batch.slow", { stage: reader, ...place, records: Math.ceil(length / 2), limit });
  };
  /** Pieces that were tried together count once. */
  const grow = (startedAt: number): void => {
    if (divisor === 1 || startedAt < countedAt) return;
    countedAt = now();
    successes += 1;
    if (successes < SUCCESSES_TO_GROW) return;
    successes = 0;
    divisor /= 2;
    if (divisor === 1) log.info("batch.recovered", { stage: reader });
  };

  return async (batch, control, run) => {
    const { sessionMs = Number.POSITIVE_INFINITY } = control;
    /**
     * The last piece was ended by a time limit. One record, whose steps have a deadline, shows
     * whether the store answers at all: if it hangs, no halving would help.
     */
    let isDoubted = false;
    for (let left = batch.messages; left.length > 0; ) {
      const triedWith = divisor;
      const share = Math.ceil(batch.messages.length / triedWith);
      const most = isDoubted ? 1 : share;
      const piece = { ...batch, messages: left.slice(0, most) };
      const startedAt = now();
      /** Any rebalance takes partitions away; only a piece that went on for long is too large. */
      const lost = (): void => {
        if (now() - startedAt >= LONG_SHARE * sessionMs)
          halve(piece, triedWith, `the session of ${sessionMs / 1_000} s`);
      };
      try {
        if (!(await run(piece))) return lost();
        if (most === share) grow(startedAt);
        left = left.slice(most);
        isDoubted = false;
      } catch (error) {
        if (!(error instanceof SlowBatch)) {
          if (!control.isCurrent()) lost();
          throw error;
        }
        halve(piece, triedWith, error.message);
        isDoubted = true;
        await control.heartbeat();
      }
      if (!control.isCurrent() || control.isStopping?.()) return;
    }
  };
};

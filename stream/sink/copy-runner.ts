// Copies the records of a topic unchanged. Each partition has its own slot in every minute, and
// copies what the log has gathered since the last slot, one piece at a time.
import type { AnyCopy, Position, UnixMs } from "../flow.ts";
import type { Control, FetchedBatch } from "../messages.ts";
import type { CopyPorts } from "../ports.ts";
import { countStop, logStop } from "../stop.ts";

/**
 * The time between two slots of a partition. A file must close within 60 s of its first record, and
 * 5 s are left for the partition's slot and the fetch.
 */
const ROUND_MS = 55_000;
/** The pause when records that another member has announced are not readable yet. */
const AGAIN_MS = 5_000;
/**
 * Timers may fire this early. Without the margin, a partition could get two rounds for one slot.
 */
const EARLY_MS = 1_000;
/**
 * The longest pause while the store is down. The pause doubles with each failure, but stays short
 * enough to notice the end of the outage soon.
 */
const LONGEST_REST_MS = 30_000;
/** A partition without a new failure for this long has moved to another member. */
const FORGOTTEN_MS = 120_000;

/** The records that a partition had waiting when its slot began, and the progress so far. */
interface Round {
  readonly begunAt: UnixMs;
  readonly from: number;
  /**
   * The log already holds everything before this offset, so the last file need not wait for more.
   */
  readonly until: number;
  /** Everything before this offset is stored and committed. */
  stored: number;
  /** The offset where the next piece begins. */
  next: number;
  /**
   * The times when the log appended the records from `stored` to `next`: at most one file and one
   * piece.
   */
  waiting: UnixMs[];
}

/**
 * Returns the function that a consumer calls for each batch. It rejects only when the log itself
 * fails. While the file store is down or refuses access, nothing is lost: the offset stays where it
 * is and everything else in this process continues.
 */
export const copyRunner = (copy: AnyCopy, ports: CopyPorts, now: () => UnixMs = Date.now) => {
  const { keep, retry, countWrite } = ports;
  const outage = outageOf(copy, ports);
  const restOf = restsOf(copy.from.partitions);
  const rounds = roundsOf(now);
  const commitStored = async (round: Round, stored: number, startedAt: number, control: Control): Promise<void> => {
    await retry("commit", () => control.commit(stored), control.heartbeat);
    const rows = stored - round.stored;
    const seconds = (performance.now() - startedAt) / 1_000;
    const receivedAt = round.waiting.splice(0, rows);
    countWrite({ sink: copy.name, table: copy.into.name, rows, rejected: new Map(), seconds, receivedAt });
    round.stored = stored;
  };

  return async (batch: FetchedBatch, control: Control): Promise<void> => {
    const { topic, partition, messages, highWatermark } = batch;
    const round = rounds.of(batch);
    const startedAt = performance.now();
    const end = messages.at(-1)!.offset + 1;
    let kept: Awaited<ReturnType<typeof keep>>;
    try {
      // Step 1: keep. A crash here stores the same files twice, which is harmless (see
      // sinks/archive/write.ts).
      kept = await keep(batch, round.until, control.heartbeat);
    } catch (error) {
      rounds.end(partition);
      if (!control.isCurrent()) throw error;
      control.readOn(round.stored);
      return control.rest(await outage.failed({ topic, partition, offset: round.stored }, error));
    }
    await control.heartbeat();
    if (!control.isCurrent()) return;
    round.next = Math.min(kept.next, end);
    // Records that are read again must not be counted twice.
    if (round.next <= messages[0]!.offset) round.waiting = [];
    else for (const { appendedAt } of messages) round.waiting.push(appendedAt);
    const stored = Math.min(kept.stored, end);
    if (stored > round.stored) {
      outage.stored(partition);
      // Step 2: commit and count. A crash before it stores the files again; existing files are left
      // alone.
      await commitStored(round, stored, startedAt, control);
    }
    // Step 3: read on until the round is over.
    control.readOn(round.next);
    const rest = restOf(partition, round, highWatermark, now());
    if (rest.isOver) rounds.end(partition);
    if (rest.ms > 0) control.rest(Math.round(rest.ms));
  };
};

/** The rounds under way, one for each partition. */
const roundsOf = (now: () => UnixMs) => {
  const rounds = new Map<number, Round>();
  return {
    of: ({ partition, messages, highWatermark }: FetchedBatch): Round => {
      const from = messages[0]!.offset;
      const known = rounds.get(partition);
      // An unexpected offset means that the consumer has rejoined its group and reads on from the
      // committed offset.
      if (known !== undefined && known.next === from) return known;
      const round = { begunAt: now(), from, until: highWatermark, stored: from, next: from, waiting: [] };
      rounds.set(partition, round);
      return round;
    },
    end: (partition: number): void => void rounds.delete(partition),
  };
};

/**
 * Spreads the partitions over the round, so that no second has more work than another. Every
 * process computes the same slots.
 */
const restsOf = (partitions: number) => {
  const shareMs = ROUND_MS / partitions;
  const nextTurn = (partition: number, begunAt: UnixMs): UnixMs => {
    const earliest = begunAt + EARLY_MS;
    const behind = (earliest - partition * shareMs) % ROUND_MS;
    return earliest + (behind === 0 ? 0 : ROUND_MS - behind);
  };
  return (partition: number, round: Round, highWatermark: number, now: UnixMs) => {
    const { begunAt, from, until, next, stored } = round;
    if (next >= until && stored === next) return { isOver: true, ms: nextTurn(partition, begunAt) - now };
    if (next >= highWatermark) return { isOver: false, ms: AGAIN_MS };
    // Spreads the pieces of a round evenly over the slot. A round that is behind schedule does not
    // pause.
    const share = Math.min(1, (next - from) / Math.max(1, until - from));
    return { isOver: false, ms: begunAt + share * shareMs - now };
  };
};

/**
 * Logs one outage for all partitions: when it begins, when an operator must look, and when the last
 * failed partition is stored again.
 */
const outageOf = (copy: AnyCopy, { stops, log }: Pick<CopyPorts, "stops" | "log">) => {
  const failing = new Map<number, { readonly times: number; readonly at: number }>();
  let isReported = false;
  let isAlerted = false;
  return {
    /** Returns how long the partition pauses, in milliseconds. */
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

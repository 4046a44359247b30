// Copies the records of a topic as they lie: each partition in its own part of the minute, what
// the log has gathered since then a piece at a time.
import type { AnyCopy, Position, UnixMs } from "../flow.ts";
import type { Control, FetchedBatch } from "../messages.ts";
import type { CopyPorts } from "../ports.ts";
import { countStop, logStop } from "../stop.ts";

/**
 * A file is closed within 60 s of its first record: this, the share of a partition, and the fetch.
 */
const ROUND_MS = 55_000;
/** The records that another member has announced are not all at hand yet. */
const AGAIN_MS = 5_000;
/** A partition that becomes due within the time that a timer is early would have two rounds. */
const EARLY_MS = 1_000;
/**
 * While the store is away: doubled with each failure, and short enough that an outage ends soon.
 */
const LONGEST_REST_MS = 30_000;
/** A partition that has not failed again for so long belongs to another member by now. */
const FORGOTTEN_MS = 120_000;

/** What waited of a partition when its turn came, and how much of it is done. */
interface Round {
  readonly begunAt: UnixMs;
  readonly from: number;
  /** Everything before this lies in the log already, so its last file need not wait for more. */
  readonly until: number;
  /** All before this is stored for good and committed. */
  stored: number;
  /** Where the next piece begins. */
  next: number;
  /** When the log took the records from `stored` to `next`: of one file, and a piece. */
  waiting: UnixMs[];
}

/**
 * The function that a consumer calls for each batch. Rejects only when the log itself fails: while
 * the files' store is away, or refuses us, nothing is lost, the offset stands, and whatever else
 * this process hosts goes on.
 */
export const copyRunner = (copy: AnyCopy, ports: CopyPorts, now: () => UnixMs = Date.now) => {
  const { keep, retry, countWrite } = ports;
  const outage = outageOf(copy, ports);
  const restOf = restsOf(copy.from.partitions);
  const rounds = new Map<number, Round>();
  const roundOf = ({ partition, messages, highWatermark }: FetchedBatch): Round => {
    const from = messages[0]!.offset;
    const known = rounds.get(partition);
    // Another one than expected: the group was joined again, and reads on from what is committed.
    if (known !== undefined && known.next === from) return known;
    const round = { begunAt: now(), from, until: highWatermark, stored: from, next: from, waiting: [] };
    rounds.set(partition, round);
    return round;
  };
  const commitStored = async (round: Round, stored: number, startedAt: number, control: Control): Promise<void> => {
    await retry("commit", () => control.commit(stored), control.heartbeat);
    const rows = stored - round.stored;
    const seconds = (performance.now() - startedAt) / 1_000;
    const receivedAt = round.waiting.splice(0, rows);
    countWrite({ sink: copy.name, table: copy.into.name, rows, rejected: 0, seconds, receivedAt });
    round.stored = stored;
  };

  return async (batch: FetchedBatch, control: Control): Promise<void> => {
    const { topic, partition, messages, highWatermark } = batch;
    const round = roundOf(batch);
    const startedAt = performance.now();
    const end = messages.at(-1)!.offset + 1;
    let kept: Awaited<ReturnType<typeof keep>>;
    try {
      // 1 keep. Dying in it costs a second storing of the same files, see sinks/archive/write.ts.
      kept = await keep(batch, round.until, control.heartbeat);
    } catch (error) {
      rounds.delete(partition);
      if (!control.isCurrent()) throw error;
      control.readOn(round.stored);
      return control.rest(await outage.failed({ topic, partition, offset: round.stored }, error));
    }
    await control.heartbeat();
    if (!control.isCurrent()) return;
    round.next = Math.min(kept.next, end);
    // What is read a second time waits once.
    if (round.next <= messages[0]!.offset) round.waiting = [];
    else for (const { appendedAt } of messages) round.waiting.push(appendedAt);
    const stored = Math.min(kept.stored, end);
    if (stored > round.stored) {
      outage.stored(partition);
      // 2 commit and count. Dying before it costs the same; files that stand are left alone.
      await commitStored(round, stored, startedAt, control);
    }
    // 3 read on, until the round is over.
    control.readOn(round.next);
    const rest = restOf(partition, round, highWatermark, now());
    if (rest.isOver) rounds.delete(partition);
    if (rest.ms > 0) control.rest(Math.round(rest.ms));
  };
};

/**
 * Partitions have their turns one after the other, so that no second has more to do than the
 * others; which partition is when is the same in every process.
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
    // The pieces of a round fill its share evenly; one that is late does not rest.
    const share = Math.min(1, (next - from) / Math.max(1, until - from));
    return { isOver: false, ms: begunAt + share * shareMs - now };
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

// Writes the batches of a replay: allows a few writes at once, and keeps a position that never
// passes an unfinished write.

import { setTimeout as sleep } from "node:timers/promises";
import type { AnySink } from "../../../stream/flow.ts";
import type { InputBatch, InputMessage, Letter } from "../../../stream/messages.ts";
import { type ReplaySinkPorts, replaySinks, type Unwritten } from "./replay-sinks.ts";
import { type OwnedReplay, placeOf, type Replay, type ReplayError, type Segment } from "./replays.ts";

export interface WritePorts extends ReplaySinkPorts {
  /** Returns the refused records that have been dead letters since they first arrived. */
  readonly knownRefusals: (letters: readonly Letter[]) => Promise<ReadonlySet<Letter>>;
}

/** Two fetches of 600-byte events, about 15 MiB: one being written, one being prepared. */
const MOST_UNDER_WAY = 30_000;
const HEARD_EVERY_MS = 2_000;
/** Errors kept of one batch: the first few are enough to diagnose it, and all are counted. */
const ERRORS_OF_A_BATCH = 3;

export interface ReplayWrites {
  /** The offset before which everything has been handed to `write`. */
  readonly positionOf: (range: Segment) => number;
  /**
   * Writes a batch. Resolves when it is written and the position has moved; batches of a partition
   * resolve in order.
   */
  readonly write: (batch: InputBatch) => Promise<void>;
  /** Resolves when another batch may be handed over. Rejects with the first write that failed. */
  readonly room: (heartbeat: () => Promise<void>) => Promise<void>;
  /** Resolves when no write is in progress. */
  readonly settled: () => Promise<void>;
}

/** The records of a batch that were not handed over yet. */
interface BatchPart {
  /** The position before the part; `first` lies behind it when the log has lost records. */
  readonly from: number;
  readonly first: number;
  readonly next: number;
  readonly count: number;
  /** Records that no earlier replay has written. */
  readonly messages: readonly InputMessage[];
}
type BatchWrite = Unwritten & Pick<BatchPart, "from" | "next"> & { readonly place: string };

/**
 * The reader starts before its position is set, and may deliver again after a pause. Records that
 * were handed over are dropped here.
 */
const partOf = (batch: InputBatch, segment: Segment, from: number): BatchPart | undefined => {
  const messages = batch.messages.filter(({ offset }) => offset >= from && offset < segment.end);
  const [first] = messages;
  if (first === undefined) return undefined;
  const isSkipped = ({ offset }: InputMessage): boolean => offset >= segment.skip_from && offset < segment.skip_to;
  return {
    from,
    first: first.offset,
    next: messages.at(-1)!.offset + 1,
    count: messages.length,
    messages: messages.filter((message) => !isSkipped(message)),
  };
};

const fileOf = ({ topic, partition, start, end }: Segment): string => `${topic}-${partition}/${start}-${end}`;

const lossOf = ({ from, first }: BatchPart, segment: Segment): readonly ReplayError[] =>
  first > from ? [{ file: fileOf(segment), message: `offsets ${from} to ${first - 1} are no longer in the log` }] : [];

const refusalsOf = async (
  { refused }: Unwritten,
  segment: Segment,
  { retry, knownRefusals }: Pick<WritePorts, "retry" | "knownRefusals">,
): Promise<readonly ReplayError[]> => {
  const known = await retry(
    "load",
    () => knownRefusals(refused),
    async () => undefined,
  );
  return refused
    .filter((letter) => !known.has(letter))
    .slice(0, ERRORS_OF_A_BATCH)
    .map(({ position, stage, code, message }) => ({
      file: fileOf(segment),
      message: `offset ${position.offset}, ${stage}: ${code}: ${message}`.slice(0, 500),
    }));
};

const countsOf = ({ next, count, messages }: BatchPart, { place, withheld, refused: letters }: BatchWrite) => {
  // Two sinks may refuse the same event.
  const refused = new Set(letters.map(({ position }) => position.offset)).size;
  return {
    place,
    next,
    requeued: messages.length - withheld - refused,
    skipped: count - messages.length,
    suppressed: withheld,
    refused,
  };
};

/** Bounds the messages under way, and keeps the first failure of a write. */
const openLimit = () => {
  const ends = new Set<Promise<void>>();
  let messagesUnderWay = 0;
  let failure: { readonly error: unknown } | undefined;
  return {
    /** Counts `messages` until the write has ended, and settles as it does. */
    follow: async (end: Promise<void>, messages: number): Promise<void> => {
      ends.add(end);
      messagesUnderWay += messages;
      try {
        await end;
      } catch (error) {
        failure ??= { error };
        throw error;
      } finally {
        ends.delete(end);
        messagesUnderWay -= messages;
      }
    },
    room: async (heartbeat: () => Promise<void>): Promise<void> => {
      while (failure === undefined && messagesUnderWay > MOST_UNDER_WAY) {
        const waited = new AbortController();
        const tick = sleep(HEARD_EVERY_MS, undefined, { signal: waited.signal }).catch(() => undefined);
        await Promise.race([...ends, tick]).catch(() => undefined);
        waited.abort();
        await heartbeat();
      }
      if (failure !== undefined) throw failure.error;
    },
    settled: async (): Promise<void> => {
      while (ends.size > 0) await Promise.allSettled(ends);
      if (failure !== undefined) throw failure.error;
    },
  };
};

export const openWrites = (
  replay: Replay,
  {
    sinks,
    ranges,
    owned,
  }: { readonly sinks: readonly AnySink[]; readonly ranges: readonly Segment[]; readonly owned: OwnedReplay },
  ports: WritePorts,
): ReplayWrites => {
  const handed = new Map(Object.entries(replay.positions));
  const segments = new Map(ranges.map((range) => [placeOf(range), range]));
  const underWay = new Set<BatchWrite>();
  const lastOf = new Map<string, Promise<void>>();
  const limit = openLimit();
  const positionOf = (range: Segment): number => handed.get(placeOf(range)) ?? range.start;
  const store = replaySinks(
    replay,
    sinks,
    ports,
    (at) =>
      [...underWay].find(({ place, from, next }) => place === placeOf(at) && at.offset >= from && at.offset < next)!,
  );
  const writePart = async (batch: InputBatch, segment: Segment, part: BatchPart, one: BatchWrite): Promise<void> => {
    // The batch before must have been written: a position that passes a failed write would lose
    // rows silently.
    await Promise.all([lastOf.get(one.place), store({ ...batch, messages: part.messages })]);
    const errors = [...lossOf(part, segment), ...(await refusalsOf(one, segment, ports))];
    await owned.advance({ ...countsOf(part, one), errors });
  };

  const write = async (batch: InputBatch): Promise<void> => {
    const place = placeOf(batch);
    const segment = segments.get(place);
    const part = segment === undefined ? undefined : partOf(batch, segment, positionOf(segment));
    if (segment === undefined || part === undefined) return;
    const one: BatchWrite = { place, from: part.from, next: part.next, withheld: 0, refused: [] };
    handed.set(place, part.next);
    underWay.add(one);
    const end = writePart(batch, segment, part, one);
    lastOf.set(place, end);
    await limit.follow(end, part.count).finally(() => underWay.delete(one));
  };
  return { positionOf, write, room: limit.room, settled: limit.settled };
};

// Writes the batches of a replay: uses the sinks' own runner, allows a few writes at once, and
// keeps a position that never passes an unfinished write.

import { setTimeout as sleep } from "node:timers/promises";
import { classify } from "../../../infra/runtime/errors.ts";
import type { AnySink, Topology } from "../../../stream/flow.ts";
import type { InputBatch, InputMessage, Letter, ProcessBatch } from "../../../stream/messages.ts";
import type { SinkPorts, WithholdFilter } from "../../../stream/ports.ts";
import { sinkRunner } from "../../../stream/sink/sink-runner.ts";
import { LaneLost, type OwnedReplay, placeOf, type Replay, type ReplayError, type Segment } from "./replays.ts";

export interface WritePorts extends Pick<SinkPorts, "wire" | "stores" | "retry" | "log"> {
  readonly topology: Topology;
  readonly withholds: () => Promise<WithholdFilter | undefined>;
  /** Returns those of the refused records that are dead letters since they first came. */
  readonly knownRefusals: (letters: readonly Letter[]) => Promise<ReadonlySet<Letter>>;
}

/**
 * While one runner writes, the other prepares its next write. A partition always has the same
 * runner, which keeps its order.
 */
const RUNNERS = 2;
/** Two fetches of 600-byte events, about 15 MiB: one being written, one being prepared. */
const MOST_UNDER_WAY = 30_000;
const HEARD_EVERY_MS = 2_000;
/** Errors kept of one batch: the first few are enough to diagnose it, and all are counted. */
const ERRORS_OF_A_BATCH = 3;

interface UnderWay {
  readonly place: string;
  readonly from: number;
  readonly next: number;
  withheld: number;
  readonly refused: Letter[];
}

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
  const underWay = new Set<UnderWay>();
  const ends = new Set<Promise<void>>();
  const lastOf = new Map<string, Promise<void>>();
  let messagesUnderWay = 0;
  let failure: { readonly error: unknown } | undefined;
  const positionOf = (range: Segment): number => handed.get(placeOf(range)) ?? range.start;
  const fileOf = ({ topic, partition, start, end }: Segment): string => `${topic}-${partition}/${start}-${end}`;
  const holding = (at: { readonly topic: string; readonly partition: number; readonly offset: number }): UnderWay =>
    [...underWay].find(({ place, from, next }) => place === placeOf(at) && at.offset >= from && at.offset < next)!;

  const sinkPorts: SinkPorts = {
    wire: ports.wire,
    stores: ports.stores,
    retry: ports.retry,
    classify,
    log: ports.log,
    // ClickHouse remembers insert tokens: a token that was used before would drop the very rows
    // that have to be restored.
    run: `${replay.replay_id}/${replay.attempts}`,
    withholds: async () => {
      const isWithheld = await ports.withholds();
      if (isWithheld === undefined) return undefined;
      return (event, read) => {
        if (!isWithheld(event, read)) return false;
        holding(read).withheld += 1;
        return true;
      };
    },
    // A second dead letter would count as another event. A refusal that is a dead letter already is
    // counted; any other is an error.
    deadLetters: ports.topology.deadLetters,
    deadLetter: (letter: Letter) => {
      holding(letter.position).refused.push(letter);
      return { topic: "", key: null, value: null };
    },
    produce: async () => undefined,
    stops: async () => 1,
    countWrite: () => undefined,
  };
  const topics = [...new Set(sinks.map(({ from }) => from))];
  const runners = new Map<string, readonly ProcessBatch[]>(
    topics.map((topic) => {
      const own = sinks.filter(({ from }) => from === topic);
      return [topic.name, Array.from({ length: RUNNERS }, () => sinkRunner(own, sinkPorts))];
    }),
  );

  /**
   * The sinks write the batch. The offset commit is left to this file, since the position may move
   * only after the batch before it has been counted.
   */
  const stored = async (batch: InputBatch): Promise<void> => {
    if (batch.messages.length === 0) return;
    let isWritten = false;
    await runners.get(batch.topic)![batch.partition % RUNNERS]!(batch, {
      heartbeat: async () => undefined,
      isCurrent: () => true,
      seek: () => undefined,
      readOn: () => undefined,
      rest: () => undefined,
      commit: async () => {
        isWritten = true;
      },
    });
    if (!isWritten) throw new LaneLost(replay.replay_id);
  };

  const errorsOf = async ({ refused }: UnderWay): Promise<readonly ReplayError[]> => {
    const known = await ports.retry(
      "load",
      () => ports.knownRefusals(refused),
      async () => undefined,
    );
    return refused
      .filter((letter) => !known.has(letter))
      .slice(0, ERRORS_OF_A_BATCH)
      .map(({ position, stage, code, message }) => ({
        file: fileOf(segments.get(placeOf(position))!),
        message: `offset ${position.offset}, ${stage}: ${code}: ${message}`.slice(0, 500),
      }));
  };

  const write = async (batch: InputBatch): Promise<void> => {
    const place = placeOf(batch);
    const segment = segments.get(place);
    if (segment === undefined) return;
    const from = positionOf(segment);
    // The reader starts before its position is set, and may deliver again after a pause. Records
    // that were handed over are dropped here.
    const messages = batch.messages.filter(({ offset }) => offset >= from && offset < segment.end);
    const [first] = messages;
    if (first === undefined) return;
    const next = messages.at(-1)!.offset + 1;
    const isSkipped = ({ offset }: InputMessage): boolean => offset >= segment.skip_from && offset < segment.skip_to;
    const given = messages.filter((message) => !isSkipped(message));
    const one: UnderWay = { place, from, next, withheld: 0, refused: [] };
    handed.set(place, next);
    underWay.add(one);
    messagesUnderWay += messages.length;
    const before = lastOf.get(place) ?? Promise.resolve();
    const end = (async () => {
      // The batch before must have been written: a position that passes a failed write would lose
      // rows silently.
      await Promise.all([before, stored({ ...batch, messages: given })]);
      const gone =
        first.offset > from
          ? [{ file: fileOf(segment), message: `offsets ${from} to ${first.offset - 1} are no longer in the log` }]
          : [];
      const errors = [...gone, ...(await errorsOf(one))];
      // Two sinks may refuse the same event.
      const refused = new Set(one.refused.map(({ position }) => position.offset)).size;
      await owned.advance({
        place,
        next,
        requeued: given.length - one.withheld - refused,
        skipped: messages.length - given.length,
        suppressed: one.withheld,
        refused,
        errors,
      });
    })();
    lastOf.set(place, end);
    ends.add(end);
    try {
      await end;
    } catch (error) {
      failure ??= { error };
      throw error;
    } finally {
      ends.delete(end);
      underWay.delete(one);
      messagesUnderWay -= messages.length;
    }
  };

  return {
    positionOf,
    write,
    room: async (heartbeat) => {
      while (failure === undefined && messagesUnderWay > MOST_UNDER_WAY) {
        const waited = new AbortController();
        const tick = sleep(HEARD_EVERY_MS, undefined, { signal: waited.signal }).catch(() => undefined);
        await Promise.race([...ends, tick]).catch(() => undefined);
        waited.abort();
        await heartbeat();
      }
      if (failure !== undefined) throw failure.error;
    },
    settled: async () => {
      while (ends.size > 0) await Promise.allSettled(ends);
      if (failure !== undefined) throw failure.error;
    },
  };
};

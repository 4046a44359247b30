// The writing half of the replay lane: the sinks' own runner, a few writes under way, and a
// position that never passes a write.

import { setTimeout as sleep } from "node:timers/promises";
import { classify } from "../../../infra/runtime/errors.ts";
import type { AnySink, Topology } from "../../../stream/flow.ts";
import type { InputBatch, InputMessage, Letter, ProcessBatch } from "../../../stream/messages.ts";
import type { SinkPorts, Withholds } from "../../../stream/ports.ts";
import { sinkRunner } from "../../../stream/sink/sink-runner.ts";
import { LaneLost, type OwnedReplay, placeOf, type Replay, type ReplayError, type Segment } from "./replays.ts";

export interface WritePorts extends Pick<SinkPorts, "wire" | "stores" | "retry" | "log"> {
  readonly topology: Topology;
  readonly withholds: () => Promise<Withholds | undefined>;
  /** Of what is refused now, what lies in the dead letters since it first came. */
  readonly knownRefusals: (letters: readonly Letter[]) => Promise<ReadonlySet<Letter>>;
}

/**
 * While one writes, the other maps what it writes next; a partition always has the same one, which
 * keeps its order.
 */
const RUNNERS = 2;
/** Two fetches of 600-byte events, about 15 MiB: one that is written, one that is mapped. */
const MOST_UNDER_WAY = 30_000;
const HEARD_EVERY_MS = 2_000;
/** Of one batch: the first tell enough, and all are counted. */
const ERRORS_OF_A_BATCH = 3;

interface UnderWay {
  readonly place: string;
  readonly from: number;
  readonly next: number;
  withheld: number;
  readonly refused: Letter[];
}

export interface ReplayWrites {
  /** The offset before which everything has been handed over. */
  readonly positionOf: (range: Segment) => number;
  /**
   * Hands a batch over. The promise ends when it is written and the position has moved; batches of
   * a partition end in their order.
   */
  readonly write: (batch: InputBatch) => Promise<void>;
  /** Resolves when there is room for more. Rejects with the first write that failed. */
  readonly room: (heartbeat: () => Promise<void>) => Promise<void>;
  /** Resolves when nothing is under way. */
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
    // A token is remembered by the store: one that had been used before would swallow the very rows
    // that are to come back.
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
    // A second dead letter would count as another event. What is one already is counted; the rest
    // is an error.
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
   * The sinks' part. Committing is ours: it comes when the batch before this one has been counted.
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
    // A reading begins before its position is set, and may come again after a pause: what was
    // handed over is not handed over again.
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
      // The batch before it must have come through: a position that passed over a failed write
      // would lose rows in silence.
      await Promise.all([before, stored({ ...batch, messages: given })]);
      const gone =
        first.offset > from
          ? [{ file: fileOf(segment), message: `offsets ${from} to ${first.offset - 1} are no longer in the log` }]
          : [];
      const errors = [...gone, ...(await errorsOf(one))];
      // Two sinks may refuse one event.
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

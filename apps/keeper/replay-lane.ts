// apps/keeper/replay-lane.ts - writes a window of the log to the stores again: the sinks' own runner on a reading of its own, nothing computed anew.
import { setTimeout as sleep } from "node:timers/promises";
import type { Pool } from "pg";
import {
  earlierReplays,
  LaneLost,
  type OwnedReplay,
  ownedReplay,
  placeOf,
  type Replay,
  type ReplayError,
  type Segment,
} from "../../sinks/postgres/replays.ts";
import type { Admin } from "../../stream/admin.ts";
import type { AnySink, AnyTopic, Topology } from "../../stream/flow.ts";
import type { Kafka } from "../../stream/kafka.ts";
import type { InputMessage, Letter, SinkPorts, Withholds } from "../../stream/ports.ts";
import { sinkRunner } from "../../stream/sink-runner.ts";
import { replayableSinks } from "../replays.ts";

export interface LanePorts extends Pick<SinkPorts, "wire" | "stores" | "retry" | "log"> {
  readonly pool: Pool;
  readonly kafka: Kafka;
  readonly admin: Admin;
  readonly topology: Topology;
  readonly withholds: () => Promise<Withholds | undefined>;
  /** How many records live groups are late with. */
  readonly late: () => Promise<number>;
}

// About 12,000 events of 600 bytes a turn: as many as a live sink joins at full rate, and 30 MiB of heap.
const fetch = { minBytes: 1, maxWaitTimeInMs: 500, maxBytesPerPartition: 2 * 1024 * 1024, maxBytes: 8 * 1024 * 1024 };
const PARTITIONS_AT_ONCE = 64;
/** While live traffic is late a turn is made this often, so that a group which stands for good does not stop whoever came to repair it. */
const PATIENCE_MS = 10_000;
const ASKED_AGAIN_MS = 500;

/** The turn is over; what is left is for the next one. */
class TurnOver extends Error {}

/**
 * Works off a replay that was claimed, from where it stands to its end, or until `isOver` says so. "done" when everything has been written. Rejects with
 * LaneLost when it is another's by now, and with whatever a store or the log threw: then it stays open, and goes on from its position.
 *
 * Each turn: 1 read; 2 write, and mark what was touched, as a live sink does; 3 position and counts, in one statement. Dying after 2 writes the same rows
 * again under the same keys and versions, and counts them once.
 */
export const workOff = async (replay: Replay, owner: string, ports: LanePorts, isOver: () => boolean): Promise<"done" | "interrupted"> => {
  const owned = ownedReplay(ports.pool, replay.replay_id, owner);
  const sinks = replayableSinks(ports.topology).filter(({ name }) => replay.sinks.includes(name));
  const ranges = replay.ranges ?? (await decided(replay, owned, sinks, ports));
  const lane = openLane(replay, { sinks, ranges, owned }, ports);
  const left = ranges.filter((range) => lane.positionOf(range) < range.end);
  try {
    if (left.length > 0)
      await ports.kafka.replay({
        topics: [...new Set(left.map(({ topic }) => topic))],
        from: offsetsOf(left, lane.positionOf),
        until: offsetsOf(ranges, ({ end }) => end),
        only: (topic, partition) => left.some((range) => range.topic === topic && range.partition === partition),
        fetch,
        partitionsAtOnce: PARTITIONS_AT_ONCE,
        onBatch: async (batch, _, heartbeat) => {
          // Every batch of a fetch is asked in one turn of the loop: all are written, or none.
          if (isOver()) throw new TurnOver();
          await lane.giveWay(isOver, heartbeat);
          await lane.write(batch, heartbeat);
        },
      });
  } catch (error) {
    if (error instanceof TurnOver) return "interrupted";
    throw error;
  }
  await owned.end("done");
  return "done";
};

const offsetsOf = (ranges: readonly Segment[], offsetOf: (range: Segment) => number): ReadonlyMap<string, ReadonlyMap<number, number>> => {
  const topics = new Map<string, Map<number, number>>();
  for (const range of ranges) {
    const own = topics.get(range.topic) ?? new Map<number, number>();
    topics.set(range.topic, own.set(range.partition, offsetOf(range)));
  }
  return topics;
};

/** Which records: by the time at which the broker appended them, up to the end that the log has now. */
export const rangesOf = async (
  admin: Admin,
  topics: readonly string[],
  { from_at, to_at }: Pick<Replay, "from_at" | "to_at">,
): Promise<readonly Segment[]> => {
  const found = await Promise.all(
    topics.map(async (topic) => {
      const [marks, starts] = await Promise.all([admin.watermarks(topic), admin.offsetsAt(topic, from_at)]);
      const ends = to_at === null ? undefined : await admin.offsetsAt(topic, to_at);
      return marks.map(({ partition, low, high }) => {
        const start = Math.max(low, starts.get(partition) ?? high);
        return { topic, partition, start, end: Math.min(high, ends?.get(partition) ?? high), skip_from: 0, skip_to: 0 };
      });
    }),
  );
  return found.flat().filter(({ start, end }) => start < end);
};

const decided = async (replay: Replay, owned: OwnedReplay, sinks: readonly AnySink[], ports: LanePorts): Promise<readonly Segment[]> => {
  const topics = [...new Set(sinks.map(({ from }) => from.name))];
  const ranges = await rangesOf(ports.admin, topics, replay);
  const earlier = (await earlierReplays(ports.pool, replay)).filter((one) => replay.sinks.every((sink) => one.sinks.includes(sink)));
  const skipping = ranges.map((range) => {
    // Of several that lie in the window the largest: what the others wrote is written again.
    const [most] = earlier
      .map((one) => {
        const done = one.ranges?.find((other) => other.topic === range.topic && other.partition === range.partition);
        if (done === undefined) return { skip_from: 0, skip_to: 0 };
        const since = replay.met[one.replay_id]?.[placeOf(range)] ?? done.start;
        return { skip_from: Math.max(range.start, since), skip_to: Math.max(0, Math.min(range.end, done.end)) };
      })
      .filter(({ skip_from, skip_to }) => skip_from < skip_to)
      .sort((a, b) => b.skip_to - b.skip_from - (a.skip_to - a.skip_from));
    return { ...range, ...most };
  });
  await owned.decide(skipping);
  return skipping;
};

interface Counted {
  withheld: number;
  readonly refused: Map<number, ReplayError>;
}

const openLane = (
  replay: Replay,
  { sinks, ranges, owned }: { readonly sinks: readonly AnySink[]; readonly ranges: readonly Segment[]; readonly owned: OwnedReplay },
  ports: LanePorts,
) => {
  const positions = new Map(Object.entries(replay.positions));
  const segments = new Map(ranges.map((range) => [placeOf(range), range]));
  /** Of the batch under way of each place; there is one at a time. */
  const counted = new Map<string, Counted>();
  const positionOf = (range: Segment): number => positions.get(placeOf(range)) ?? range.start;
  const fileOf = ({ topic, partition, start, end }: Segment): string => `${topic}-${partition}/${start}-${end}`;

  const sinkPorts: SinkPorts = {
    wire: ports.wire,
    stores: ports.stores,
    retry: ports.retry,
    log: ports.log,
    // A token is remembered by the store: one that had been used before would swallow the very rows that are to come back.
    run: `${replay.replay_id}/${replay.attempts}`,
    withholds: async () => {
      const isWithheld = await ports.withholds();
      if (isWithheld === undefined) return undefined;
      return (event, read) => {
        if (!isWithheld(event, read)) return false;
        counted.get(placeOf(read))!.withheld += 1;
        return true;
      };
    },
    // What is refused now was refused when it came and is a dead letter since then; a second one would count as another event. It is told instead.
    deadLetters: ports.topology.deadLetters,
    deadLetter: ({ position, stage, code, message }: Letter) => {
      const place = placeOf(position);
      const file = fileOf(segments.get(place)!);
      counted
        .get(place)!
        .refused.set(position.offset, { file, message: `offset ${position.offset}, ${stage}: ${code}: ${message}`.slice(0, 500) });
      return { topic: "", key: null, value: null };
    },
    produce: async () => undefined,
    stops: async () => 1,
    countWrite: () => undefined,
  };
  const runners = new Map(
    [...new Set(sinks.map(({ from }) => from))].map((topic: AnyTopic) => [
      topic.name,
      sinkRunner(
        sinks.filter(({ from }) => from === topic),
        sinkPorts,
      ),
    ]),
  );

  /** Waits while live groups are late, but never for good. */
  let waiting: Promise<void> | undefined;
  const wait = async (isOver: () => boolean, heartbeat: () => Promise<void>): Promise<void> => {
    const end = performance.now() + PATIENCE_MS;
    while (performance.now() < end && !isOver() && (await ports.late()) > 0) {
      await heartbeat();
      await sleep(ASKED_AGAIN_MS);
    }
  };

  return {
    positionOf,
    giveWay: (isOver: () => boolean, heartbeat: () => Promise<void>): Promise<void> => {
      waiting ??= wait(isOver, heartbeat).finally(() => {
        waiting = undefined;
      });
      return waiting;
    },
    write: async (
      batch: { readonly topic: string; readonly partition: number; readonly messages: readonly InputMessage[] },
      heartbeat: () => Promise<void>,
    ): Promise<void> => {
      const place = placeOf(batch);
      const segment = segments.get(place);
      if (segment === undefined) return;
      const from = positionOf(segment);
      // A reading begins before it is told where, and may come again after a pause: what has been passed is passed.
      const messages = batch.messages.filter(({ offset }) => offset >= from && offset < segment.end);
      if (messages.length === 0) return;
      const isSkipped = ({ offset }: InputMessage): boolean => offset >= segment.skip_from && offset < segment.skip_to;
      const given = messages.filter((message) => !isSkipped(message));
      const counts: Counted = { withheld: 0, refused: new Map() };
      counted.set(place, counts);
      let isWritten = given.length === 0;
      if (!isWritten)
        await runners.get(batch.topic)!(
          { topic: batch.topic, partition: batch.partition, messages: given },
          {
            heartbeat,
            isCurrent: () => true,
            seek: () => undefined,
            commit: async () => {
              isWritten = true;
            },
          },
        );
      if (!isWritten) throw new LaneLost(replay.replay_id);
      const [first] = messages;
      const gone =
        first!.offset > from
          ? [{ file: fileOf(segment), message: `offsets ${from} to ${first!.offset - 1} are no longer in the log` }]
          : [];
      const next = messages.at(-1)!.offset + 1;
      const refused = counts.refused.size;
      await owned.advance({
        place,
        next,
        requeued: given.length - counts.withheld - refused,
        skipped: messages.length - given.length,
        suppressed: counts.withheld,
        refused,
        errors: [...gone, ...[...counts.refused.values()].slice(0, 3)],
      });
      positions.set(place, next);
    },
  };
};

// Reads a window of the log and has it written to the stores again, nothing computed again, and
// makes way for live traffic.
import { setTimeout as sleep } from "node:timers/promises";
import type { Pool } from "pg";
import type { Admin, Kafka } from "../../../infra/kafka/kafka.ts";
import type { AnySink } from "../../../stream/flow.ts";
import type { LiveTraffic } from "./live-traffic.ts";
import { openWrites, type WritePorts } from "./replay-writes.ts";
import { earlierReplays, type OwnedReplay, ownedReplay, placeOf, type Replay, type Segment } from "./replays.ts";
import { replayableSinks } from "./report.ts";

export interface LanePorts extends WritePorts {
  readonly pool: Pool;
  readonly kafka: Kafka;
  readonly admin: Admin;
  readonly traffic: () => Promise<LiveTraffic>;
}

// About 12,000 events of 600 bytes: as many as a live sink joins at full rate.
const fetch = { minBytes: 1, maxWaitTimeInMs: 500, maxBytesPerPartition: 2 * 1024 * 1024, maxBytes: 8 * 1024 * 1024 };
const PARTITIONS_AT_ONCE = 64;
/**
 * While live traffic is late a turn is made this often, so that a group which stands for good does
 * not stop an operator who repairs it.
 */
const PATIENCE_MS = 10_000;
const ASKED_AGAIN_MS = 500;
/**
 * While live traffic flows, two thirds of the time and of the stores are left to it
 * (bench/replay.ts).
 */
const RESTS = 2;

/** The turn is over; what is left is for the next one. */
class TurnOver extends Error {}

/**
 * Works off a replay that was claimed, from where it stands to its end, or until `isOver` says so.
 * "done" when everything has been written. Rejects with LaneLost when it is another's by now, and
 * with whatever a store or the log threw: then it stays open, and goes on from its position.
 *
 * Of each batch: 1 read; 2 write, and mark what was touched, as a live sink does; 3 position and
 * counts, in one statement. Dying after 2 writes the same rows again under the same keys and
 * versions, and counts them once.
 */
export const workOff = async (
  replay: Replay,
  owner: string,
  ports: LanePorts,
  isOver: () => boolean,
): Promise<"done" | "interrupted"> => {
  const owned = ownedReplay(ports.pool, replay.replay_id, owner);
  const sinks = replayableSinks(ports.topology).filter(({ name }) => replay.sinks.includes(name));
  const ranges = replay.ranges ?? (await decided(replay, owned, sinks, ports));
  const writes = openWrites(replay, { sinks, ranges, owned }, ports);
  const pace = paceOf(ports.traffic, isOver);
  const left = ranges.filter((range) => writes.positionOf(range) < range.end);
  let isLeft = false;
  try {
    if (left.length > 0)
      await ports.kafka.replay({
        topics: [...new Set(left.map(({ topic }) => topic))],
        from: offsetsOf(left, writes.positionOf),
        until: offsetsOf(ranges, ({ end }) => end),
        only: (topic, partition) => left.some((range) => range.topic === topic && range.partition === partition),
        fetch,
        partitionsAtOnce: PARTITIONS_AT_ONCE,
        onBatch: async (batch, heartbeat) => {
          const isFlowing = await pace.turn(heartbeat);
          if (isLeft || isOver()) throw new TurnOver();
          const startedAt = performance.now();
          const written = writes.write(batch);
          // Its failure is met by `room` or `settled`, which comes first.
          written.catch(() => undefined);
          if (!isFlowing) return writes.room(heartbeat);
          await written;
          await pace.rest(RESTS * (performance.now() - startedAt), heartbeat);
        },
      });
    await writes.settled();
  } catch (error) {
    // Nothing may be under way when the replay is left: this process may claim it again at once, as
    // the same owner, and a write that ends late would then move the position of the new attempt
    // back, and count its records twice.
    isLeft = true;
    const settled = writes.settled();
    if (error instanceof TurnOver) {
      await settled;
      return "interrupted";
    }
    await settled.catch(() => undefined);
    throw error;
  }
  await owned.end("done");
  return "done";
};

/** All batches of one fetch wait for the same turn, and rest together. */
const paceOf = (traffic: LanePorts["traffic"], isOver: () => boolean) => {
  type Heartbeat = () => Promise<void>;
  const shared = () => {
    let current: Promise<unknown> | undefined;
    return <T>(work: () => Promise<T>): Promise<T> => {
      current ??= work().finally(() => {
        current = undefined;
      });
      return current as Promise<T>;
    };
  };
  const [turns, rests] = [shared(), shared()];
  const pause = async (ms: number, heartbeat: Heartbeat): Promise<void> => {
    for (const end = performance.now() + ms; performance.now() < end && !isOver(); await heartbeat())
      await sleep(Math.max(0, Math.min(ASKED_AGAIN_MS, end - performance.now())));
  };
  return {
    /** Waits while live groups are late, but never for good. True while live traffic flows. */
    turn: (heartbeat: Heartbeat) =>
      turns(async () => {
        const end = performance.now() + PATIENCE_MS;
        let now = await traffic();
        while (now.late > 0 && performance.now() < end && !isOver()) {
          await pause(ASKED_AGAIN_MS, heartbeat);
          now = await traffic();
        }
        return now.isFlowing;
      }),
    rest: (ms: number, heartbeat: Heartbeat) => rests(() => pause(ms, heartbeat)),
  };
};

const offsetsOf = (
  ranges: readonly Segment[],
  offsetOf: (range: Segment) => number,
): ReadonlyMap<string, ReadonlyMap<number, number>> => {
  const topics = new Map<string, Map<number, number>>();
  for (const range of ranges) {
    const own = topics.get(range.topic) ?? new Map<number, number>();
    topics.set(range.topic, own.set(range.partition, offsetOf(range)));
  }
  return topics;
};

/**
 * Which records: by the time at which the broker appended them, up to the end that the log has now.
 */
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

const decided = async (
  replay: Replay,
  owned: OwnedReplay,
  sinks: readonly AnySink[],
  ports: LanePorts,
): Promise<readonly Segment[]> => {
  const topics = [...new Set(sinks.map(({ from }) => from.name))];
  const ranges = await rangesOf(ports.admin, topics, replay);
  const earlier = (await earlierReplays(ports.pool, replay)).filter((one) =>
    replay.sinks.every((sink) => one.sinks.includes(sink)),
  );
  const skipping = ranges.map((range) => ({ ...range, ...skippedOf(range, replay, earlier) }));
  await owned.decide(skipping);
  return skipping;
};

/**
 * What an earlier lane has written of the range since this replay was asked for; of several the
 * largest, what the others wrote is written again.
 */
export const skippedOf = (
  range: Segment,
  { met }: Pick<Replay, "met">,
  earlier: readonly Pick<Replay, "replay_id" | "ranges">[],
): Pick<Segment, "skip_from" | "skip_to"> => {
  const found = earlier.flatMap(({ replay_id, ranges }) => {
    const done = ranges?.find(({ topic, partition }) => topic === range.topic && partition === range.partition);
    if (done === undefined) return [];
    const skip_from = Math.max(range.start, met[replay_id]?.[placeOf(range)] ?? done.start);
    const skip_to = Math.min(range.end, done.end);
    return skip_from < skip_to ? [{ skip_from, skip_to }] : [];
  });
  return found.sort((a, b) => b.skip_to - b.skip_from - (a.skip_to - a.skip_from))[0] ?? { skip_from: 0, skip_to: 0 };
};

// Reads a window of the log and has the sinks write it to the stores again, without computing
// anything again. Yields to live traffic.
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

// About 12,000 events of 600 bytes: as many as a live sink batches at full rate.
const fetch = { minBytes: 1, maxWaitTimeInMs: 500, maxBytesPerPartition: 2 * 1024 * 1024, maxBytes: 8 * 1024 * 1024 };
const PARTITIONS_AT_ONCE = 64;
/**
 * Longest wait for late live traffic before the lane takes a turn anyway. Without it, a group that
 * never recovers would block the operator who repairs it.
 */
const PATIENCE_MS = 10_000;
const ASKED_AGAIN_MS = 500;
/**
 * While live traffic flows, the lane rests for twice the time that it worked, which leaves two
 * thirds of the time and of the stores to live traffic (bench/replay.ts).
 */
const RESTS = 2;

/** Thrown to end a turn; the next turn continues from the position. */
class TurnOver extends Error {}

/**
 * Runs a claimed replay from its position to its end, or until `isOver` returns true. Returns
 * "done" when everything has been written. Rejects with LaneLost when another process has taken the
 * replay, and with any error of a store or the log; the replay then stays open and continues from
 * its position later.
 * Each batch takes three steps: 1. read; 2. write and mark what changed, as a live sink does; 3.
 * store position and counts in one statement. A crash after 2 writes the same rows again under the
 * same keys and versions, and counts them once.
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
        ...readingOf(left, writes.positionOf),
        onBatch: async (batch, heartbeat) => {
          const isFlowing = await pace.turn(heartbeat);
          if (isLeft || isOver()) throw new TurnOver();
          const startedAt = performance.now();
          const written = writes.write(batch);
          // `room` or `settled` reports the failure, whichever is awaited first.
          written.catch(() => undefined);
          if (!isFlowing) return writes.room(heartbeat);
          await written;
          await pace.rest(RESTS * (performance.now() - startedAt), heartbeat);
        },
      });
    await writes.settled();
  } catch (error) {
    // Waits until no write is in progress. This process may claim the replay again at once as the
    // same owner; a write that ends late would then move the position of the new attempt back and
    // count its records twice.
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

/** All batches of one fetch share one turn and one rest. */
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
    /**
     * Waits while live groups are late, at most `PATIENCE_MS`. Returns true while live traffic
     * flows.
     */
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

/** The settings for reading these ranges, each from its position to its end. */
const readingOf = (left: readonly Segment[], positionOf: (range: Segment) => number) => ({
  topics: [...new Set(left.map(({ topic }) => topic))],
  from: offsetsOf(left, positionOf),
  until: offsetsOf(left, ({ end }) => end),
  only: (topic: string, partition: number) =>
    left.some((range) => range.topic === topic && range.partition === partition),
  fetch,
  partitionsAtOnce: PARTITIONS_AT_ONCE,
});

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
 * Returns the offsets of the window, by the time at which the broker appended the records, up to
 * the current end of the log.
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
 * Returns the part of the range that an earlier lane has written since this replay was requested.
 * Of several parts it returns the largest; the other parts are written again.
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

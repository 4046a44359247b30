// One member of a consumer group: hands over one batch of one partition at a time and moves offsets
// only when told to.
import { classify, isSettling } from "../runtime/errors.ts";
import { retry } from "../runtime/retry.ts";
import type { ClientBatch, ClientConsumer } from "./kafka.ts";

export interface ConsumedMessage {
  readonly offset: number;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, Buffer | string | undefined>>;
  /** When the broker appended it, Unix milliseconds. */
  readonly appendedAt: number;
}

export interface ConsumedBatch {
  readonly topic: string;
  readonly partition: number;
  /** At least one; offsets rise, and may leave gaps where compaction or a control record was. */
  readonly messages: readonly ConsumedMessage[];
  /**
   * The offset after the newest record of the partition when this batch was fetched: lag =
   * highWatermark - next offset.
   */
  readonly highWatermark: number;
  /** When the broker appended the last message, Unix milliseconds. */
  readonly appendedAt: number;
}

export interface BatchControl {
  /**
   * Commits the offset to go on from. Never moves it back: what lies below an earlier commit is
   * answered without doing anything.
   */
  readonly commit: (nextOffset: number) => Promise<void>;
  /**
   * To be called every few thousand messages: a silence longer than the session costs the
   * membership.
   */
  readonly heartbeat: () => Promise<void>;
  /**
   * False once another member may own the partition. Ask before every durable step; when false,
   * leave the batch without committing.
   */
  readonly isCurrent: () => boolean;
  /**
   * Reads the partition on from this offset, which the log must still hold. The batch at hand is
   * stale from then on, and nothing is committed.
   */
  readonly seek: (offset: number) => void;
  /**
   * Hands over nothing more of this partition for so long: what comes meanwhile waits in the log,
   * where it costs nobody memory.
   */
  readonly rest: (ms: number) => void;
}

export interface FetchSettings {
  readonly minBytes: number;
  readonly maxWaitTimeInMs: number;
  readonly maxBytesPerPartition: number;
  readonly maxBytes: number;
}

const KIB = 1024;
const MIB = 1024 * KIB;

/**
 * A stage: a short session, so that a killed one is replaced within 30 s
 * (docs/design/architecture.md, "Hosting"). What a batch costs beside its events (memory, one
 * request a partition, a commit) is shared by more of them when the broker gathers a little: at
 * 10,000 events a second 128 KiB fill in 26 ms, which is 20 events a partition, 200 ms bring 170.
 * Of the second that an event takes to the stores, the sinks' own gathering is the larger part.
 */
export const stageReading = {
  fetch: { minBytes: 2 * MIB, maxWaitTimeInMs: 200, maxBytesPerPartition: 4 * MIB, maxBytes: 16 * MIB },
  sessionTimeoutMs: 10_000,
  partitionsAtOnce: 1,
};
/**
 * A sink: the broker gathers about one insert a second; all batches of a fetch are handed over in
 * the same turn, so that they can join one write. All events of a fetch live until it is written:
 * more than 12 MiB of them outgrow the young part of the heap, and one that lags would then cost
 * most when it has least time.
 */
export const sinkReading = {
  fetch: { minBytes: 8 * MIB, maxWaitTimeInMs: 1_000, maxBytesPerPartition: 2 * MIB, maxBytes: 12 * MIB },
  sessionTimeoutMs: 30_000,
  partitionsAtOnce: 64,
};

/**
 * A copy of the log: one partition's part at a time, as large as one of its files may be (32 MiB),
 * and nothing is held beyond it. The partition rests after each file, so that the broker gathers
 * the next one. These bytes may be raised and never lowered: a file that was announced is written
 * whole.
 */
export const copyReading = {
  fetch: { minBytes: MIB, maxWaitTimeInMs: 1_000, maxBytesPerPartition: 32 * MIB, maxBytes: 32 * MIB },
  sessionTimeoutMs: 30_000,
  partitionsAtOnce: 1,
};

export interface ConsumerSettings {
  readonly group: string;
  readonly topics: readonly string[];
  /** Of the topics, those in which a position may be skipped because compaction removes records. */
  readonly allowOffsetGaps?: readonly string[];
  readonly reading?: {
    readonly fetch: FetchSettings;
    readonly sessionTimeoutMs: number;
    readonly partitionsAtOnce: number;
  };
  /**
   * One batch. Resolving without a commit leaves the position where it was, and the same batch
   * comes again. A throw ends the consumer.
   */
  readonly onBatch: (batch: ConsumedBatch, control: BatchControl) => Promise<void>;
  /**
   * Called whenever the group has been joined anew, before a batch of the new membership is handed
   * over.
   */
  readonly onJoin?: () => void;
  /**
   * Called once, when this consumer has ended by itself; the process is to exit with 1 (a consumer
   * that crashed stays idle for ever).
   */
  readonly onCrash: (error: Error) => void;
}

export interface Consumer {
  /** Partitions owned now, by topic; empty while the group rebalances or after the end. */
  readonly assigned: () => Readonly<Record<string, readonly number[]>>;
  /**
   * Milliseconds since the group last heard this member; readiness means progress, not connection.
   */
  readonly silentMs: () => number;
  readonly pause: (topic: string, partitions?: readonly number[]) => void;
  readonly resume: (topic: string, partitions?: readonly number[]) => void;
  /**
   * Finishes the batch under way (its commit included), leaves the group, disconnects. Afterwards
   * committed = processed.
   */
  readonly stop: () => Promise<void>;
}

/**
 * The log does not hold what the group has not read yet: retention or a lost tail. Going on would
 * lose events in silence; an operator decides.
 */
export class LogGap extends Error {
  readonly verdict = "fatal";
  /** Tells the client not to try again. */
  readonly retriable = false;
  constructor(topic: string, partition: number, what: string) {
    super(`${topic}-${partition}: ${what}; see \`tributary rewind\` for how to go on`);
    this.name = "LogGap";
  }
}

/**
 * The group has moved on without this member, or is about to: the batch must be left, and the
 * client joins again.
 */
export class MembershipLost extends Error {
  readonly verdict = "fatal";
  constructor(cause: unknown) {
    super("the group has moved on", { cause });
    this.name = "MembershipLost";
  }
}

/** How the client is told to end instead of trying the same batch again. */
class Ended extends Error {
  readonly retriable = false;
}

const membershipTypes = new Set([
  "REBALANCE_IN_PROGRESS",
  "ILLEGAL_GENERATION",
  "UNKNOWN_MEMBER_ID",
  "FENCED_INSTANCE_ID",
]);
const NO_HEADERS = Object.freeze({});

/** A repeated header keeps its last value. */
const headersOf = (given: Record<string, unknown> | undefined): ConsumedMessage["headers"] => {
  let headers: Record<string, Buffer | string | undefined> | undefined;
  for (const name in given) {
    const value = given[name] as Buffer | string | undefined | (Buffer | string)[];
    headers ??= {};
    headers[name] = Array.isArray(value) ? value.at(-1) : value;
  }
  return headers ?? NO_HEADERS;
};

export const messagesOf = (batch: ClientBatch["batch"]): ConsumedMessage[] => {
  // All records of one append share the text of their time.
  let text: string | undefined;
  let appendedAt = 0;
  return batch.messages.map((message) => {
    if (message.timestamp !== text) {
      text = message.timestamp;
      appendedAt = Number(text);
    }
    return {
      offset: Number(message.offset),
      key: message.key,
      value: message.value,
      headers: headersOf(message.headers as Record<string, unknown> | undefined),
      appendedAt,
    };
  });
};

/**
 * How long a group waits for its other members to join again. Whoever was killed never does, and
 * one that was killed while it joined costs a rebalance and a session: with 30 s here and a sink's
 * 30 s that was the whole minute in which everything must be read again (law L1). A member that is
 * busy for longer is left out and joins again; what it was writing is written twice, which is once.
 */
const REBALANCE_MS = 15_000;

// Groups of four years of offsets are read in seconds; then the process ends and is started again.
const LOADING_MS = 30_000;

/**
 * Resolves once the group has been joined. The client hands on that the broker is loading, and a
 * second `run` of it does nothing: so all of it again.
 */
export const openConsumer = (...given: Parameters<typeof joinedConsumer>): Promise<Consumer> =>
  retry(() => joinedConsumer(...given), { deadlineMs: LOADING_MS, isTransient: isSettling });

const joinedConsumer = async (
  join: (config: { groupId: string } & Record<string, unknown>) => ClientConsumer,
  prefix: string,
  settings: ConsumerSettings,
  /**
   * Places (`topic-partition`) that may be read from the start of the log when they ask for what is
   * no longer there.
   */
  resetAllowed: Set<string>,
): Promise<Consumer> => {
  const { group, topics, onBatch, reading = stageReading } = settings;
  const { sessionTimeoutMs } = reading;
  const client = join({
    groupId: group,
    sessionTimeout: sessionTimeoutMs,
    heartbeatInterval: Math.floor(sessionTimeoutMs * 0.3),
    rebalanceTimeout: REBALANCE_MS,
    ...reading.fetch,
  });
  const allowOffsetGaps = new Set(settings.allowOffsetGaps);
  /**
   * Changes whenever the group is joined anew: a batch of an older generation is nobody's to
   * finish.
   */
  let generation = 0;
  let owned: Readonly<Record<string, readonly number[]>> = {};
  let lastHeard = performance.now();
  let isStopping = false;
  let hasEnded = false;
  /** Low-water guard: the highest offset committed in this generation, by topic and partition. */
  const committed = new Map<string, number>();

  const crash = (error: Error): void => {
    if (hasEnded) return;
    hasEnded = true;
    owned = {};
    settings.onCrash(error);
  };

  client.on(client.events.HEARTBEAT, () => {
    lastHeard = performance.now();
  });
  client.on(client.events.GROUP_JOIN, ({ payload }) => {
    generation++;
    committed.clear();
    settings.onJoin?.();
    lastHeard = performance.now();
    owned = Object.fromEntries(
      Object.entries(payload.memberAssignment).map(([topic, list]) => [topic.slice(prefix.length), list]),
    );
  });
  client.on(client.events.REBALANCING, () => {
    owned = {};
  });
  /** `run` of the client resolves also when the group could not be joined: only the event tells. */
  let isJoined = false;
  let notJoined: Error | undefined;
  client.on(client.events.CRASH, ({ payload }) => {
    const error = rootOf(payload.error);
    if (isJoined) crash(error);
    else notJoined = error;
  });

  const eachBatch = async ({
    batch,
    isRunning,
    isStale,
    heartbeat,
    resolveOffset,
    commitOffsetsIfNecessary,
  }: ClientBatch): Promise<void> => {
    if (hasEnded) throw new Ended("this consumer has ended");
    const topic = batch.topic.slice(prefix.length);
    const { partition } = batch;
    const startedIn = generation;
    const place = `${batch.topic}-${partition}`;
    resetAllowed.delete(place);
    let membershipError: unknown;
    // A batch that is under way when stop() is called is finished: its effects may be out already.
    const isCurrent = () =>
      membershipError === undefined &&
      (isRunning() || isStopping) &&
      !isStale() &&
      generation === startedIn &&
      performance.now() - lastHeard < sessionTimeoutMs;
    const asMember = async (step: () => Promise<void>): Promise<void> => {
      try {
        await step();
      } catch (error) {
        if (!isOfMembership(error)) throw error;
        membershipError = error;
        throw new MembershipLost(error);
      }
    };
    const control: BatchControl = {
      isCurrent,
      heartbeat: () => asMember(heartbeat),
      commit: async (nextOffset) => {
        if (nextOffset <= (committed.get(place) ?? -1)) return;
        if (nextOffset > Number(batch.lastOffset()) + 1) throw new Error(`${place}: ${nextOffset} is beyond the batch`);
        const offsets = { topics: [{ topic: batch.topic, partitions: [{ partition, offset: String(nextOffset) }] }] };
        // kafkajs's own commitOffsets answers nothing and does nothing once stop() has begun; the
        // batch's function does not.
        await asMember(() =>
          retry(() => commitOffsetsIfNecessary(offsets), {
            deadlineMs: sessionTimeoutMs,
            isTransient: (error) => !isOfMembership(error) && classify(error) === "transient",
          }),
        );
        committed.set(place, nextOffset);
        resolveOffset(String(nextOffset - 1));
      },
      seek: (offset) => {
        committed.delete(place);
        resetAllowed.add(place);
        client.seek({ topic: batch.topic, partition, offset: String(offset) });
      },
      rest: (ms) => {
        const one = [{ topic: batch.topic, partitions: [partition] }];
        client.pause(one);
        // Whoever has ended by then, or lost the partition, has nothing to resume.
        setTimeout(() => {
          if (!hasEnded) client.resume(one);
        }, ms).unref();
      },
    };
    try {
      const first = batch.firstOffset();
      const { fetchedOffset } = batch as unknown as { readonly fetchedOffset: string };
      if (!allowOffsetGaps.has(topic) && first !== null && Number(first) > Number(fetchedOffset))
        throw new LogGap(topic, partition, `asked for offset ${fetchedOffset}, got ${first}`);
      const messages = messagesOf(batch);
      const appendedAt = Number(batch.messages.at(-1)!.timestamp);
      await onBatch({ topic, partition, messages, highWatermark: Number(batch.highWatermark), appendedAt }, control);
    } catch (error) {
      // The client knows how to join again; anything else would be tried for ever on the same
      // record.
      if (membershipError !== undefined) throw membershipError;
      crash(error as Error);
      throw new Ended("a batch could not be finished", { cause: error });
    }
  };

  await client.connect();
  try {
    await client.subscribe({ topics: topics.map((topic) => prefix + topic), fromBeginning: true });
    await client.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: reading.partitionsAtOnce,
      eachBatch,
    });
    if (notJoined !== undefined) throw notJoined;
    isJoined = true;
  } catch (error) {
    await client.disconnect();
    throw error;
  }

  const chosen = (topic: string, partitions?: readonly number[]) => [
    partitions === undefined ? { topic: prefix + topic } : { topic: prefix + topic, partitions: [...partitions] },
  ];
  return {
    assigned: () => owned,
    silentMs: () => performance.now() - lastHeard,
    pause: (topic, partitions) => client.pause(chosen(topic, partitions)),
    resume: (topic, partitions) => client.resume(chosen(topic, partitions)),
    stop: async () => {
      isStopping = true;
      await client.stop();
      hasEnded = true;
      owned = {};
      await client.disconnect();
    },
  };
};

const isOfMembership = (error: unknown): boolean =>
  membershipTypes.has((rootOf(error as Error) as { type?: string }).type ?? "");

/** The error inside the client's retry wrappers. */
const rootOf = (error: Error): Error =>
  error.cause instanceof Error && error.cause !== error ? rootOf(error.cause) : error;

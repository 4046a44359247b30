// Looks at topics, offsets and groups and changes them: what start-up, operators, lag metrics and
// tests need of the broker.
import { isSettling } from "../runtime/errors.ts";
import { retry } from "../runtime/timing/retry.ts";
import { within } from "../runtime/timing/time-limit.ts";
import type { ClientAdmin } from "./client/types.ts";
import { applyTopics, namesOf, planTopics, type TopicDifference, type TopicSetting } from "./topic-settings.ts";

export interface Lag {
  readonly group: string;
  readonly topic: string;
  readonly partition: number;
  /** Null: the group has no position yet and will begin at `low`. */
  readonly committed: number | null;
  readonly low: number;
  readonly high: number;
  readonly lag: number;
}

interface Watermarks {
  readonly partition: number;
  readonly low: number;
  readonly high: number;
}

/** The brokers that hold one partition, by number. */
interface Copies {
  readonly partition: number;
  readonly leader: number;
  readonly on: readonly number[];
  /** Brokers that have all of its records, including the leader. */
  readonly inSync: readonly number[];
}

export interface GroupState {
  readonly group: string;
  /** Empty, Stable, PreparingRebalance, CompletingRebalance or Dead. */
  readonly state: string;
  readonly members: readonly { readonly memberId: string; readonly clientId: string; readonly host: string }[];
}

/** Names have no prefix of the cluster. Each call reads everything from the broker again. */
export interface Admin {
  readonly topics: () => Promise<readonly string[]>;
  readonly plan: (declared: readonly TopicSetting[]) => Promise<readonly TopicDifference[]>;
  /**
   * Creates missing topics and corrects configuration; returns the differences that it did not
   * change.
   */
  readonly apply: (declared: readonly TopicSetting[]) => Promise<readonly TopicDifference[]>;
  readonly watermarks: (topic: string) => Promise<readonly Watermarks[]>;
  readonly copies: (topic: string) => Promise<readonly Copies[]>;
  /**
   * The first offset appended at or after a time, by partition; the high watermark where nothing is
   * newer.
   */
  readonly offsetsAt: (topic: string, atMs: number) => Promise<ReadonlyMap<number, number>>;
  /** Committed offsets by partition; a partition without one is left out. */
  readonly committed: (group: string, topic: string) => Promise<ReadonlyMap<number, number>>;
  /**
   * Sets all offsets or none. Throws when the group has members, because it must be Empty. Callers
   * must still read the offsets back and compare them (infra/kafka/README.md K10).
   */
  readonly setOffsets: (group: string, topic: string, offsets: ReadonlyMap<number, number>) => Promise<void>;
  readonly describeGroups: (groups: readonly string[]) => Promise<readonly GroupState[]>;
  readonly lag: (group: string, topics: readonly string[]) => Promise<readonly Lag[]>;
  readonly deleteGroups: (groups: readonly string[]) => Promise<void>;
  readonly deleteTopics: (topics: readonly string[]) => Promise<void>;
  /** Removes what lies below the given offsets. */
  readonly deleteRecords: (topic: string, below: ReadonlyMap<number, number>) => Promise<void>;
  readonly close: () => Promise<void>;
}

// The client retries all other errors for the same time.
const SETTLING_MS = 10_000;

const settled = <T>(ask: () => Promise<T>): Promise<T> =>
  retry(ask, { deadlineMs: SETTLING_MS, isTransient: isSettling });

export const openAdmin = (client: ClientAdmin, prefix: string): Admin => {
  const watermarks: Admin["watermarks"] = (topic) => watermarksOf(client, prefix + topic);
  const committed: Admin["committed"] = (group, topic) => committedOf(client, prefix + group, prefix + topic);
  return {
    topics: () => namesOf(client, prefix),
    plan: (declared) => planTopics(client, prefix, declared),
    apply: (declared) => applyTopics(client, prefix, declared),
    watermarks,
    committed,
    copies: (topic) => copiesOf(client, prefix + topic),
    offsetsAt: async (topic, atMs) => {
      const found = await settled(() => client.fetchTopicOffsetsByTimestamp(prefix + topic, atMs));
      return new Map(found.map(({ partition, offset }) => [partition, Number(offset)]));
    },
    setOffsets: async (group, topic, offsets) => {
      const wanted = { groupId: prefix + group, topic: prefix + topic, partitions: partitionsOf(offsets) };
      await settled(() => client.setOffsets(wanted));
    },
    describeGroups: async (groups) => {
      const found = await client.describeGroups(groups.map((group) => prefix + group));
      return found.groups.map(({ groupId, state, members }) => ({
        group: groupId.slice(prefix.length),
        state,
        members: members.map(({ memberId, clientId, clientHost }) => ({ memberId, clientId, host: clientHost })),
      }));
    },
    lag: async (group, topics) => {
      // Both questions at once: the health report waits 2 s for them, however slow the log is.
      const of = async (topic: string) =>
        lagOf(group, topic, ...(await Promise.all([watermarks(topic), committed(group, topic)])));
      return (await Promise.all(topics.map(of))).flat();
    },
    deleteGroups: async (groups) => {
      await client.deleteGroups(groups.map((group) => prefix + group));
    },
    deleteTopics: (names) => client.deleteTopics({ topics: names.map((name) => prefix + name) }),
    deleteRecords: async (topic, below) => {
      // The client looks up leaders only among topics that it has used, so the topic is read first.
      await watermarks(topic);
      await client.deleteTopicRecords({ topic: prefix + topic, partitions: partitionsOf(below) });
    },
    close: () => client.disconnect(),
  };
};

const watermarksOf = async (client: ClientAdmin, topic: string): Promise<readonly Watermarks[]> =>
  (await settled(() => client.fetchTopicOffsets(topic)))
    .map(({ partition, low, high }) => ({ partition, low: Number(low), high: Number(high) }))
    .sort((a, b) => a.partition - b.partition);

/** Never with `resolveOffsets`, which writes offsets where none were. */
const committedOf = async (client: ClientAdmin, groupId: string, topic: string) => {
  const [found] = await settled(() => client.fetchOffsets({ groupId, topics: [topic] }));
  const known = (found?.partitions ?? []).filter(({ offset }) => Number(offset) >= 0);
  return new Map(known.map(({ partition, offset }) => [partition, Number(offset)]));
};

const lagOf = (
  group: string,
  topic: string,
  marks: readonly Watermarks[],
  positions: ReadonlyMap<number, number>,
): readonly Lag[] =>
  marks.map(({ partition, low, high }) => {
    const at = positions.get(partition) ?? null;
    return { group, topic, partition, committed: at, low, high, lag: Math.max(0, high - (at ?? low)) };
  });

const copiesOf = async (client: ClientAdmin, topic: string): Promise<readonly Copies[]> => {
  const { topics } = await settled(() => client.fetchTopicMetadata({ topics: [topic] }));
  return topics.flatMap(({ partitions }) =>
    partitions.map(({ partitionId, leader, replicas, isr }) => ({
      partition: partitionId,
      leader,
      on: replicas,
      inSync: isr,
    })),
  );
};

const partitionsOf = (offsets: ReadonlyMap<number, number>) =>
  [...offsets].map(([partition, offset]) => ({ partition, offset: String(offset) }));

export interface LastingAdmin {
  /** Rejects with the error of the broker, or when it does not answer in time. */
  readonly ask: <T>(question: (admin: Admin) => Promise<T>) => Promise<T>;
  /** Requests after this are rejected. */
  readonly close: () => Promise<void>;
}

/** A broker that hangs answers neither a request nor the disconnect. */
const LEAVE_MS = 1_000;

/**
 * One admin connection for questions that come again and again. The first question opens it; after
 * a failure it is closed, and the next question opens another.
 */
export const lastingAdmin = (kafka: { readonly admin: () => Promise<Admin> }, withinMs: number): LastingAdmin => {
  let opened: Promise<Admin> | undefined;
  let isClosed = false;
  const leave = async (connection: Promise<Admin> | undefined): Promise<void> => {
    if (opened === connection) opened = undefined;
    const left = connection?.then((admin) => admin.close());
    await within(LEAVE_MS, Promise.resolve(left), "not left").catch(() => undefined);
  };
  return {
    ask: async (question) => {
      if (isClosed) throw new Error("the connection to the log is closed");
      opened ??= kafka.admin();
      const connection = opened;
      try {
        return await within(withinMs, connection.then(question), `the log did not answer within ${withinMs / 1_000} s`);
      } catch (error) {
        await leave(connection);
        throw error;
      }
    },
    close: () => {
      isClosed = true;
      return leave(opened);
    },
  };
};

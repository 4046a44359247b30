// One member of a consumer group: hands over one batch of one partition at a time and moves offsets
// only where it is asked to.
import { isSettling } from "../runtime/errors.ts";
import { retry } from "../runtime/timing/retry.ts";
import type { ClientConsumer } from "./client/types.ts";
import { stageReading } from "./fetch-settings.ts";
import { type ConsumerSettings, Member } from "./member.ts";

export type { ConsumerSettings } from "./member.ts";

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

type Join = (config: { groupId: string } & Record<string, unknown>) => ClientConsumer;

/**
 * How long a group waits for its other members to join again. One that was killed never does, and
 * one that was killed while it joined costs a rebalance and a session. A member that is busy for
 * longer is left out and joins again; what it was writing is written twice, which is once.
 */
const REBALANCE_MS = 15_000;

// Groups of four years of offsets are read in seconds; then the process ends and is started again.
const LOADING_MS = 30_000;

/**
 * Resolves once the group has been joined. The client hands on that the broker is loading, and a
 * second `run` of it does nothing: so all of it again.
 */
export const openConsumer = (join: Join, prefix: string, settings: ConsumerSettings): Promise<Consumer> =>
  retry(() => joined(join, prefix, settings), { deadlineMs: LOADING_MS, isTransient: isSettling });

const joined = async (join: Join, prefix: string, settings: ConsumerSettings): Promise<Consumer> => {
  const { group, topics, reading = stageReading } = settings;
  const client = join({
    groupId: group,
    sessionTimeout: reading.sessionTimeoutMs,
    heartbeatInterval: Math.floor(reading.sessionTimeoutMs * 0.3),
    rebalanceTimeout: REBALANCE_MS,
    ...reading.fetch,
  });
  const member = new Member(client, prefix, settings, reading);
  await client.connect();
  try {
    await client.subscribe({ topics: topics.map((topic) => prefix + topic), fromBeginning: true });
    await client.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: reading.partitionsAtOnce,
      eachBatch: (given) => member.take(given),
    });
    member.begin();
  } catch (error) {
    await client.disconnect();
    throw error;
  }
  return {
    assigned: () => member.assigned(),
    silentMs: () => member.silentMs(),
    pause: (topic, partitions) => client.pause(member.chosen(topic, partitions)),
    resume: (topic, partitions) => client.resume(member.chosen(topic, partitions)),
    stop: () => member.stop(),
  };
};

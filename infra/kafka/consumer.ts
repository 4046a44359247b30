// One member of a consumer group: hands over one batch of one partition at a time, and moves
// offsets only on request.
import { isSettling } from "../runtime/errors.ts";
import { retry } from "../runtime/timing/retry.ts";
import type { ClientConsumer } from "./client/types.ts";
import { stageReading } from "./fetch-settings.ts";
import { type ConsumerSettings, Member } from "./member.ts";

export type { ConsumerSettings } from "./member.ts";

export interface Consumer {
  /**
   * The partitions that are owned now, by topic; empty while the group rebalances and after the
   * end.
   */
  readonly assigned: () => Readonly<Record<string, readonly number[]>>;
  /**
   * Milliseconds since the group last heard from this member. Readiness means progress and not a
   * connection.
   */
  readonly silentMs: () => number;
  readonly pause: (topic: string, partitions?: readonly number[]) => void;
  readonly resume: (topic: string, partitions?: readonly number[]) => void;
  /**
   * Finishes the batch under way with its commit, leaves the group and disconnects. Afterwards
   * committed = processed.
   */
  readonly stop: () => Promise<void>;
}

type Join = (config: { groupId: string } & Record<string, unknown>) => ClientConsumer;

/**
 * How long a group waits for its other members to join again. A killed member never joins, and one
 * that was killed while joining costs a rebalance and a session. A member that is busy for longer
 * is left out and joins again; its writes are repeated, which changes nothing.
 */
const REBALANCE_MS = 15_000;

// Four years of a group's offsets are read in seconds; after this the process ends and is started
// again.
const LOADING_MS = 30_000;

/**
 * Resolves once the group has been joined. The client passes on the error that the broker is
 * loading, and a second `run` of the same client does nothing, so a new client is made for each
 * try.
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

// The log: how its clients are configured, and everything that the rest of the code may use of this
// folder.
import type { KafkaConfig } from "kafkajs";
import type { Position } from "../../stream/flow.ts";
import type { InputMessage } from "../../stream/messages.ts";
import { partitionOf } from "../../stream/partitioner.ts";
import type { Log } from "../runtime/log.ts";
import { connectionOf, type LogAddress } from "./address.ts";
import { type Admin, openAdmin } from "./admin.ts";
import { correctedClient } from "./client/kafkajs-corrected.ts";
import { type Consumer, type ConsumerSettings, openConsumer } from "./consumer.ts";
import { type FetchSettings, stageReading } from "./fetch-settings.ts";
import { openProducer, type Producer, type ProducerSettings } from "./producer.ts";
import { pick } from "./records.ts";
import { type LogReplay, replay, type Sources } from "./replay.ts";

export { connectionOf } from "./address.ts";
export type { Admin, GroupState, Lag } from "./admin.ts";
export type { Consumer, ConsumerSettings } from "./consumer.ts";
export { LogGap, LogUnavailable, MembershipLost, Overloaded } from "./errors.ts";
export { copyReading, durableReading, sinkReading, stageReading } from "./fetch-settings.ts";
export { type LastingAdmin, lastingAdmin } from "./lasting-admin.ts";
export type { Producer, ProducerSettings } from "./producer.ts";
export { appendedAt, peek, placeOf } from "./records.ts";
export type { TopicSetting } from "./topic-settings.ts";

export interface KafkaSettings extends LogAddress {
  readonly clientId: string;
  /**
   * Put before the name of every topic and group, for clusters that are shared; names are without
   * it everywhere else.
   */
  readonly topicPrefix?: string;
  readonly log?: Log;
}

export interface Kafka extends LogReplay {
  /** Opens no connection before the first message: an edge must start while the log is away. */
  readonly producer: (settings?: ProducerSettings) => Producer;
  /** Resolves once the group has been joined. */
  readonly consumer: (settings: ConsumerSettings) => Promise<Consumer>;
  /** Reads single records, by `placeOf`; what the log does not hold is left out. */
  readonly pick: (places: readonly Position[]) => Promise<ReadonlyMap<string, InputMessage>>;
  readonly admin: () => Promise<Admin>;
}

// Every client names its retries, since NODE_ENV=test would change the defaults in silence.
// producer: one try; infra/kafka/producer.ts repeats under its own deadline, so nothing is sent
// after it has been given up.
const noRetry = { initialRetryTime: 100, maxRetryTime: 500, retries: 1, factor: 0.2, multiplier: 2 };
// consumer: 0.2 s doubling to 2 s, 30 tries, about 55 s without a broker; then the process ends and
// is started again.
const consumerRetry = {
  initialRetryTime: 200,
  maxRetryTime: 2_000,
  retries: 30,
  factor: 0.2,
  multiplier: 2,
  restartOnFailure: async () => false,
};
// consumer: a broker that stands still is left for those that lead by then, and all of its requests
// but those that wait for other members are answered within a second or two.
const READER_SILENCE_MS = 10_000;
// admin: a person or a start-up waits: about 10 s.
const adminRetry = { initialRetryTime: 200, maxRetryTime: 1_000, retries: 10, factor: 0.2, multiplier: 2 };

// One record at a time is wanted, and what lies behind it is not: small fetches that the broker
// answers at once.
const pickReading = { minBytes: 1, maxWaitTimeInMs: 100, maxBytesPerPartition: 256 * 1024, maxBytes: 4 * 1024 * 1024 };

const byKey = () => {
  let next = 0;
  return ({
    message,
    partitionMetadata,
  }: {
    message: { key?: Buffer | string | null };
    partitionMetadata: readonly unknown[];
  }): number => {
    const { key } = message;
    if (key === null || key === undefined) return next++ % partitionMetadata.length;
    return partitionOf(typeof key === "string" ? Buffer.from(key) : key, partitionMetadata.length);
  };
};

export const openKafka = (settings: KafkaSettings): Kafka => {
  const kafkajs = correctedClient();
  const prefix = settings.topicPrefix ?? "";
  // A client an object: kafkajs shares committed offsets between the consumers of one, which would
  // outlive a rewind.
  const client = (retry: NonNullable<KafkaConfig["retry"]>, requestTimeout = 30_000) =>
    new kafkajs.Kafka({
      ...connectionOf(settings),
      clientId: settings.clientId,
      retry,
      connectionTimeout: 3_000,
      requestTimeout,
      logLevel: kafkajs.logLevel.WARN,
      logCreator: () => (entry) =>
        settings.log?.debug("kafka.client", { client: entry.namespace, reason: entry.log.message }),
    });
  const admin = async (): Promise<Admin> => {
    const connected = client(adminRetry).admin({ retry: adminRetry });
    await connected.connect();
    return openAdmin(connected, prefix);
  };
  const joining = (config: { groupId: string } & Record<string, unknown>) =>
    client(consumerRetry, READER_SILENCE_MS).consumer({
      ...config,
      groupId: prefix + config.groupId,
      retry: consumerRetry,
      allowAutoTopicCreation: false,
    });
  const reading = (fetch: FetchSettings): Sources => ({
    admin,
    consumer: (groupId) => joining({ groupId, ...fetch }),
    prefix,
  });
  return {
    producer: (given = {}) =>
      openProducer(
        () =>
          client(noRetry).producer({
            retry: { ...noRetry, retries: 0 },
            idempotent: false,
            allowAutoTopicCreation: false,
            createPartitioner: byKey,
          }),
        prefix,
        given,
      ),
    consumer: (given) => openConsumer(joining, prefix, given),
    replay: (given) => replay(reading(given.fetch ?? stageReading.fetch), given),
    pick: (places) => pick(reading(pickReading), places),
    admin,
  };
};

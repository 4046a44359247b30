// Configures the clients of the log. Every client sets its retries, because NODE_ENV=test would
// change the defaults silently.
import type { KafkaConfig } from "kafkajs";
import type { Log } from "../runtime/log.ts";
import { connectionOf, type LogAddress } from "./address.ts";
import { correctedClient } from "./client/kafkajs-corrected.ts";
import type { ClientAdmin, ClientConsumer, ClientProducer } from "./client/types.ts";

export interface KafkaSettings extends LogAddress {
  readonly clientId: string;
  /**
   * Put before the name of every topic and group, for clusters that are shared; names are without
   * it everywhere else.
   */
  readonly topicPrefix?: string;
  readonly log?: Log;
}

/**
 * A producer tries once: infra/kafka/producer.ts repeats under its own deadline, so that nothing is
 * sent after it has been given up.
 */
const noRetry = { initialRetryTime: 100, maxRetryTime: 500, retries: 1, factor: 0.2, multiplier: 2 };
/**
 * A consumer tries for about 55 s without a broker: 30 tries, with pauses from 0.2 s doubling to
 * 2 s. Then the process ends and is started again.
 */
const consumerRetry = {
  initialRetryTime: 200,
  maxRetryTime: 2_000,
  retries: 30,
  factor: 0.2,
  multiplier: 2,
  restartOnFailure: async () => false,
};
/**
 * A consumer leaves a broker that hangs for the brokers that have become leaders by then. All of
 * its requests except those that wait for other members are answered within a second or two.
 */
const READER_SILENCE_MS = 10_000;
/** An admin tries for about 10 s, because a person or a start waits for it. */
const adminRetry = { initialRetryTime: 200, maxRetryTime: 1_000, retries: 10, factor: 0.2, multiplier: 2 };

export type Partitioner = NonNullable<NonNullable<Parameters<Kafkajs["producer"]>[0]>["createPartitioner"]>;
type Kafkajs = InstanceType<ReturnType<typeof correctedClient>["Kafka"]>;

/**
 * Makes clients that are not connected yet, each with a separate client object: kafkajs shares
 * committed offsets between the consumers of one object, and they would outlive a rewind.
 */
export const clientsOf = (settings: KafkaSettings) => {
  const kafkajs = correctedClient();
  const prefix = settings.topicPrefix ?? "";
  const client = (retry: NonNullable<KafkaConfig["retry"]>, requestTimeout = 30_000): Kafkajs =>
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
  return {
    prefix,
    producer: (createPartitioner: Partitioner): ClientProducer =>
      client(noRetry).producer({
        retry: { ...noRetry, retries: 0 },
        idempotent: false,
        allowAutoTopicCreation: false,
        createPartitioner,
      }),
    consumer: (config: { groupId: string } & Record<string, unknown>): ClientConsumer =>
      client(consumerRetry, READER_SILENCE_MS).consumer({
        ...config,
        groupId: prefix + config.groupId,
        retry: consumerRetry,
        allowAutoTopicCreation: false,
      }),
    admin: (): ClientAdmin => client(adminRetry).admin({ retry: adminRetry }),
  };
};

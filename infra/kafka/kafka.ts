// How the clients of the log are configured, and their addresses read.
import { readFileSync } from "node:fs";
import type { KafkaConfig } from "kafkajs";
import { partitionOf } from "../../stream/partitioner.ts";
import type { Log } from "../runtime/log.ts";
import { type Admin, openAdmin } from "./admin.ts";
import { correctedClient } from "./client/kafkajs-corrected.ts";
import { type ConsumedMessage, type Consumer, type ConsumerSettings, openConsumer, stageReading } from "./consumer.ts";
import { type PickSettings, pick } from "./pick.ts";
import { openProducer, type Producer, type ProducerSettings } from "./producer.ts";
import { type ReplaySettings, replay } from "./replay.ts";

export type {
  Admin as ClientAdmin,
  Consumer as ClientConsumer,
  EachBatchPayload as ClientBatch,
  Message as ClientMessage,
  Producer as ClientProducer,
} from "kafkajs";

export interface KafkaSettings {
  /**
   * `host:9092,host:9092`, or a URL:
   * `kafkas://user:password@host:9092,host:9092?sasl=scram-sha-512` (kafkas: TLS; sasl: plain,
   * scram-sha-256, scram-sha-512; ca, cert and key name PEM files: an authority that the machine
   * does not know, and who we are to a broker that asks for it).
   */
  readonly brokers: string;
  readonly clientId: string;
  /**
   * Put before the name of every topic and group, for clusters that are shared; names are without
   * it everywhere else.
   */
  readonly topicPrefix?: string;
  /** Certificates, where the URL's plain `kafkas:` is not enough. */
  readonly ssl?: NonNullable<KafkaConfig["ssl"]>;
  readonly log?: Log;
}

export interface Kafka {
  /** Opens no connection before the first message: an edge must start while the log is away. */
  readonly producer: (settings?: ProducerSettings) => Producer;
  /** Resolves once the group has been joined. */
  readonly consumer: (settings: ConsumerSettings) => Promise<Consumer>;
  /**
   * Reads topics from their beginning (or given offsets) to the end that they have now, outside of
   * any group that lasts.
   */
  readonly replay: (settings: ReplaySettings) => Promise<void>;
  /**
   * Reads single records, by `placeOf` of infra/kafka/pick.ts; what the log does not hold is left
   * out.
   */
  readonly pick: (settings: PickSettings) => Promise<ReadonlyMap<string, ConsumedMessage>>;
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
  const kafkajs = correctedClient(resetAllowed);
  const prefix = settings.topicPrefix ?? "";
  // A client an object: kafkajs shares committed offsets between the consumers of one, which would
  // outlive a rewind.
  const client = (retry: NonNullable<KafkaConfig["retry"]>) =>
    new kafkajs.Kafka({
      ...connectionOf(settings),
      clientId: settings.clientId,
      retry,
      connectionTimeout: 3_000,
      requestTimeout: 30_000,
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
    client(consumerRetry).consumer({
      ...config,
      groupId: prefix + config.groupId,
      retry: consumerRetry,
      allowAutoTopicCreation: false,
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
    consumer: (given) => {
      for (const topic of given.allowOffsetGaps ?? []) resetAllowed.add(prefix + topic);
      return openConsumer(joining, prefix, given, resetAllowed);
    },
    replay: (given) =>
      replay(
        { admin, consumer: (groupId) => joining({ groupId, ...(given.fetch ?? stageReading.fetch) }) },
        prefix,
        given,
      ),
    pick: (given) => pick({ admin, consumer: (groupId) => joining({ groupId, ...pickReading }) }, prefix, given),
    admin,
  };
};

/**
 * Reads the address; user and password may be percent-encoded. Throws on anything but the settings
 * named above.
 */
export const connectionOf = ({
  brokers,
  ssl,
}: Pick<KafkaSettings, "brokers" | "ssl">): Pick<KafkaConfig, "brokers" | "ssl" | "sasl"> => {
  const match =
    /^(?:(?<scheme>kafkas?):\/\/)?(?:(?<user>[^:@]+):(?<password>[^@]*)@)?(?<hosts>[^/?@]+)\/?(?:\?(?<query>.*))?$/.exec(
      brokers,
    );
  const { scheme, user, password, hosts, query } = match?.groups ?? {};
  const addresses = hosts?.split(",").map((host) => host.trim()) ?? [];
  if (addresses.length === 0 || addresses.some((address) => !/^(\[[0-9a-fA-F:]+\]|[^:\s]+):\d+$/.test(address)))
    throw new Error(
      "the address of Kafka is host:port,host:port or kafkas://user:password@host:port?sasl=scram-sha-512",
    );
  const mechanism = new URLSearchParams(query).get("sasl") ?? "plain";
  if (!["plain", "scram-sha-256", "scram-sha-512"].includes(mechanism))
    throw new Error(`Kafka: unknown sasl mechanism ${mechanism}`);
  const files = tlsFilesIn(new URLSearchParams(query));
  if (files !== undefined && scheme !== "kafkas")
    throw new Error("Kafka: ca, cert and key belong to an address that begins with kafkas://");
  const secure = ssl ?? (scheme === "kafkas" ? (files ?? true) : undefined);
  return {
    brokers: addresses,
    ...(secure === undefined ? {} : { ssl: secure }),
    ...(user === undefined
      ? {}
      : {
          sasl: {
            mechanism: mechanism as "plain",
            username: decodeURIComponent(user),
            password: decodeURIComponent(password ?? ""),
          },
        }),
  };
};

/** The PEM files that an address names, read. */
const tlsFilesIn = (query: URLSearchParams): NonNullable<KafkaConfig["ssl"]> | undefined => {
  const read = (name: string) => query.getAll(name).map((file) => readFileSync(file, "utf8"))[0];
  const [ca, cert, key] = [read("ca"), read("cert"), read("key")];
  if ((cert === undefined) !== (key === undefined)) throw new Error("Kafka: cert and key must be given together");
  if (ca === undefined && cert === undefined) return undefined;
  return { ...(ca !== undefined && { ca: [ca] }), ...(cert !== undefined && key !== undefined && { cert, key }) };
};

/**
 * Topics from which compaction takes records, and places (`topic-partition`) just sought: there a
 * position may be skipped.
 */
const resetAllowed = new Set<string>();

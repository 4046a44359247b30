// The clients of the log: the address that they connect to, and their settings. Every client sets
// its retries, because NODE_ENV=test would change the defaults silently.
import { readFileSync } from "node:fs";
import type { KafkaConfig } from "kafkajs";
import type { Log } from "../runtime/log.ts";
import { correctedClient } from "./client/kafkajs-corrected.ts";
import type { ClientAdmin, ClientConsumer, ClientProducer } from "./client/types.ts";

export interface LogAddress {
  /**
   * `host:9092,host:9092`, or a URL:
   * `kafkas://user:password@host:9092,host:9092?sasl=scram-sha-512` (kafkas: TLS; sasl: plain,
   * scram-sha-256, scram-sha-512; ca, cert and key name PEM files: an authority that the machine
   * does not know, and who we are to a broker that asks for it).
   */
  readonly brokers: string;
  /** Certificates, where the URL's plain `kafkas:` is not enough. */
  readonly ssl?: NonNullable<KafkaConfig["ssl"]>;
}

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

const FORM =
  /^(?:(?<scheme>kafkas?):\/\/)?(?:(?<user>[^:@]+):(?<password>[^@]*)@)?(?<hosts>[^/?@]+)\/?(?:\?(?<query>.*))?$/;

/**
 * Reads the address; user and password may be percent-encoded. Throws on anything but the settings
 * named above.
 */
export const connectionOf = ({ brokers, ssl }: LogAddress): Pick<KafkaConfig, "brokers" | "ssl" | "sasl"> => {
  const { scheme, user, password, hosts, query } = FORM.exec(brokers)?.groups ?? {};
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

/** The contents of the PEM files that an address names. */
const tlsFilesIn = (query: URLSearchParams): NonNullable<KafkaConfig["ssl"]> | undefined => {
  const read = (name: string) => query.getAll(name).map((file) => readFileSync(file, "utf8"))[0];
  const [ca, cert, key] = [read("ca"), read("cert"), read("key")];
  if ((cert === undefined) !== (key === undefined)) throw new Error("Kafka: cert and key must be given together");
  if (ca === undefined && cert === undefined) return undefined;
  return { ...(ca !== undefined && { ca: [ca] }), ...(cert !== undefined && key !== undefined && { cert, key }) };
};

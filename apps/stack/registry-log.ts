// What the schema registry remembers: records in the compacted topic `_schemas`, in the form that Confluent's registry writes.
import { randomUUID } from "node:crypto";
import { Kafka, logLevel } from "kafkajs";
import { isLevel, type Level } from "./compatibility.ts";

const TOPIC = "_schemas";

/** One version of a subject. Equal texts share an id, whatever their subject. */
export interface Version {
  readonly subject: string;
  readonly version: number;
  readonly id: number;
  readonly schema: string;
}

export interface RegistryLog {
  readonly versions: (subject: string) => readonly Version[];
  readonly subjects: () => readonly string[];
  readonly byId: (id: number) => readonly Version[];
  readonly idOf: (schema: string) => number | undefined;
  readonly nextId: () => number;
  readonly level: (subject: string | null) => Level | undefined;
  /** Resolves when Kafka has the record; only then is it visible here. Writers come one after the other. */
  readonly addVersion: (version: Version) => Promise<void>;
  readonly setLevel: (subject: string | null, level: Level) => Promise<void>;
}

interface Key {
  readonly keytype: "SCHEMA" | "CONFIG" | (string & {});
  readonly subject: string | null;
  readonly version?: number;
  readonly magic: number;
}

/** Creates the topic when it is missing, and reads it to its end. @throws Error when Kafka cannot be reached. */
export async function openRegistryLog(brokers: readonly string[]): Promise<RegistryLog> {
  const kafka = new Kafka({
    clientId: "tributary-registry",
    brokers: [...brokers],
    logLevel: logLevel.ERROR,
    retry: { initialRetryTime: 50, retries: 8 },
  });
  const versions = new Map<string, Version[]>();
  const byId = new Map<number, Version[]>();
  const ids = new Map<string, number>();
  const levels = new Map<string | null, Level>();
  let highest = 0;

  const learn = (keyText: string, valueText: string | null): void => {
    const key = JSON.parse(keyText) as Key;
    const value = valueText === null ? null : (JSON.parse(valueText) as Record<string, unknown>);
    if (key.keytype === "CONFIG" && value !== null && isLevel(value.compatibilityLevel)) levels.set(key.subject, value.compatibilityLevel);
    if (key.keytype !== "SCHEMA" || value === null || value.deleted === true) return;
    const version = { subject: value.subject, version: value.version, id: value.id, schema: value.schema } as Version;
    const known = versions.get(version.subject) ?? [];
    // Compaction keeps one record a key, but until it ran a version may be met twice.
    if (known.some((one) => one.version === version.version)) return;
    versions.set(
      version.subject,
      [...known, version].sort((a, b) => a.version - b.version),
    );
    byId.set(version.id, [...(byId.get(version.id) ?? []), version]);
    ids.set(version.schema, version.id);
    highest = Math.max(highest, version.id);
  };

  const write = async (key: Key, value: unknown): Promise<void> => {
    const record = { key: JSON.stringify(key), value: JSON.stringify(value) };
    // Schemas are written once in a long while: a connection that waits for the next one would only cost timers.
    const producer = kafka.producer({ allowAutoTopicCreation: false });
    await producer.connect();
    try {
      await producer.send({ topic: TOPIC, acks: -1, messages: [record] });
    } finally {
      await producer.disconnect();
    }
    learn(record.key, record.value);
  };

  await readAll(kafka, learn);
  return {
    versions: (subject) => versions.get(subject) ?? [],
    subjects: () => [...versions.keys()].sort(),
    byId: (id) => byId.get(id) ?? [],
    idOf: (schema) => ids.get(schema),
    nextId: () => highest + 1,
    level: (subject) => levels.get(subject),
    addVersion: (version) =>
      write({ keytype: "SCHEMA", subject: version.subject, version: version.version, magic: 1 }, { ...version, deleted: false }),
    setLevel: (subject, compatibilityLevel) => write({ keytype: "CONFIG", subject, magic: 0 }, { compatibilityLevel }),
  };
}

async function readAll(kafka: Kafka, learn: (key: string, value: string | null) => void): Promise<void> {
  const admin = kafka.admin();
  await admin.connect();
  // A group of its own each time: there is nobody to share with, and a killed predecessor would be waited for until its session ends.
  const groupId = `tributary.registry.${randomUUID()}`;
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 50 });
  try {
    await admin.createTopics({
      waitForLeaders: true,
      topics: [{ topic: TOPIC, numPartitions: 1, replicationFactor: -1, configEntries: [{ name: "cleanup.policy", value: "compact" }] }],
    });
    const [end] = await admin.fetchTopicOffsets(TOPIC);
    const last = BigInt(end?.high ?? "0") - 1n;
    if (last < BigInt(end?.low ?? "0")) return;
    await consumer.connect();
    await consumer.subscribe({ topic: TOPIC, fromBeginning: true });
    await new Promise<void>((resolve, reject) => {
      consumer.on("consumer.crash", ({ payload }) => reject(payload.error));
      consumer
        .run({
          autoCommit: false,
          eachBatch: async ({ batch }) => {
            for (const { key, value } of batch.messages) if (key !== null) learn(key.toString(), value?.toString() ?? null);
            if (BigInt(batch.lastOffset()) >= last) resolve();
          },
        })
        .catch(reject);
    });
  } finally {
    await consumer.disconnect();
    await admin.deleteGroups([groupId]).catch(() => undefined);
    await admin.disconnect();
  }
}

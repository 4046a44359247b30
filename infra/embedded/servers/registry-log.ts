// The memory of the schema registry: records in the compacted topic `_schemas`, in the form of
// Confluent's registry.
import { openKafka } from "../../kafka/kafka.ts";
import { isLevel, type Level } from "./compatibility.ts";

const TOPIC = "_schemas";

/** One version of a subject. Equal texts share an id across subjects. */
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
  /**
   * Resolves when Kafka has the record; only then is it visible here. Call it for one version after
   * the other.
   */
  readonly addVersion: (version: Version) => Promise<void>;
  readonly setLevel: (subject: string | null, level: Level) => Promise<void>;
}

interface Key {
  readonly keytype: "SCHEMA" | "CONFIG" | (string & {});
  readonly subject: string | null;
  readonly version?: number;
  readonly magic: number;
}

/**
 * Creates the topic when it is missing, and reads it to its end. @throws Error when Kafka cannot be
 * reached.
 */
export async function openRegistryLog(brokers: string): Promise<RegistryLog> {
  const kafka = openKafka({ brokers, clientId: "tributary-registry" });
  const { learn, ...known } = openSchemas();
  const write = async (key: Key, value: unknown): Promise<void> => {
    const record = { key: JSON.stringify(key), value: Buffer.from(JSON.stringify(value)) };
    // Schemas are written rarely: a connection that waits for the next one would only cost timers.
    const producer = kafka.producer();
    try {
      await producer.send([{ topic: TOPIC, ...record }]);
    } finally {
      await producer.close();
    }
    learn(record.key, record.value.toString());
  };

  const admin = await kafka.admin();
  try {
    await admin.apply([{ name: TOPIC, partitions: 1, retentionMs: -1, compacted: true }]);
  } finally {
    await admin.close();
  }
  await kafka.replay({
    topics: [TOPIC],
    onBatch: ({ messages }) => {
      for (const { key, value } of messages) if (key !== null) learn(key.toString(), value?.toString() ?? null);
    },
  });
  return {
    ...known,
    addVersion: (version) =>
      write(
        { keytype: "SCHEMA", subject: version.subject, version: version.version, magic: 1 },
        { ...version, deleted: false },
      ),
    setLevel: (subject, compatibilityLevel) => write({ keytype: "CONFIG", subject, magic: 0 }, { compatibilityLevel }),
  };
}

/** The schemas and levels of the records that were read so far, in memory. */
const openSchemas = (): Omit<RegistryLog, "addVersion" | "setLevel"> & { readonly learn: LearnRecord } => {
  const versions = new Map<string, Version[]>();
  const byId = new Map<number, Version[]>();
  const ids = new Map<string, number>();
  const levels = new Map<string | null, Level>();
  let highest = 0;

  const learn: LearnRecord = (keyText, valueText) => {
    const key = JSON.parse(keyText) as Key;
    const value = valueText === null ? null : (JSON.parse(valueText) as Record<string, unknown>);
    if (key.keytype === "CONFIG" && value !== null && isLevel(value.compatibilityLevel))
      levels.set(key.subject, value.compatibilityLevel);
    if (key.keytype !== "SCHEMA" || value === null || value.deleted === true) return;
    const version = { subject: value.subject, version: value.version, id: value.id, schema: value.schema } as Version;
    const known = versions.get(version.subject) ?? [];
    // Compaction keeps one record a key, but until it has run a version may come twice.
    if (known.some((one) => one.version === version.version)) return;
    versions.set(
      version.subject,
      [...known, version].sort((a, b) => a.version - b.version),
    );
    byId.set(version.id, [...(byId.get(version.id) ?? []), version]);
    ids.set(version.schema, version.id);
    highest = Math.max(highest, version.id);
  };
  return {
    learn,
    versions: (subject) => versions.get(subject) ?? [],
    subjects: () => [...versions.keys()].sort(),
    byId: (id) => byId.get(id) ?? [],
    idOf: (schema) => ids.get(schema),
    nextId: () => highest + 1,
    level: (subject) => levels.get(subject),
  };
};
type LearnRecord = (key: string, value: string | null) => void;

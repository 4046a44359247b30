// Compares the declared topics with those of the broker, and makes the broker agree.
import { retry } from "../runtime/timing/retry.ts";
import type { ClientAdmin } from "./client/types.ts";

/** The declaration of a topic; topics.ts lists them. */
export interface TopicSetting {
  readonly name: string;
  readonly partitions: number;
  /** -1: records are kept for ever. */
  readonly retentionMs: number;
  /** The most that a partition keeps; absent: what the broker or an operator has set. */
  readonly retentionBytes?: number;
  readonly compacted?: boolean;
  /**
   * Each write is on the disk of its broker before it is acknowledged; for a log with a single
   * broker.
   */
  readonly synced?: boolean;
}

/**
 * A difference between the broker and the declaration. `partitions` is never applied, because keys
 * would move away from their memory.
 */
export interface TopicDifference {
  readonly topic: string;
  readonly what: "missing" | "partitions" | "config";
  readonly setting: string;
  readonly declared: string;
  readonly found: string | null;
}

const TOPIC_RESOURCE = 2;
/** The source of a value that was set on the topic itself and is not a default. */
const OF_THE_TOPIC = 1;

/**
 * The broker sets the time of a record: offsets by time must not depend on the clocks of clients
 * (infra/kafka/README.md K22).
 */
const configOf = (declared: TopicSetting): Readonly<Record<string, string>> => ({
  "retention.ms": String(declared.retentionMs),
  ...(declared.retentionBytes === undefined ? {} : { "retention.bytes": String(declared.retentionBytes) }),
  "cleanup.policy": declared.compacted === true ? "compact" : "delete",
  "message.timestamp.type": "LogAppendTime",
  ...(declared.synced === true ? { "flush.messages": "1" } : {}),
});

const entriesOf = (setting: TopicSetting) =>
  Object.entries(configOf(setting)).map(([name, value]) => ({ name, value }));

/** The topics with the prefix; the names are without it. */
export const namesOf = async (client: ClientAdmin, prefix: string): Promise<readonly string[]> =>
  (await client.listTopics()).filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));

export const planTopics = async (
  client: ClientAdmin,
  prefix: string,
  declared: readonly TopicSetting[],
): Promise<readonly TopicDifference[]> => {
  const present = new Set(await namesOf(client, prefix));
  const missing = declared.filter(({ name }) => !present.has(name));
  const known = declared.filter(({ name }) => present.has(name));
  const ofMissing = missing.map(
    ({ name, partitions }): TopicDifference => ({
      topic: name,
      what: "missing",
      setting: "partitions",
      declared: String(partitions),
      found: null,
    }),
  );
  if (known.length === 0) return ofMissing;
  const found = [
    ...(await partitionDifferences(client, prefix, known)),
    ...(await configDifferences(client, prefix, known)),
  ];
  return [...ofMissing, ...known.flatMap(({ name }) => found.filter(({ topic }) => topic === name))];
};

const partitionDifferences = async (
  client: ClientAdmin,
  prefix: string,
  known: readonly TopicSetting[],
): Promise<readonly TopicDifference[]> => {
  const { topics } = await client.fetchTopicMetadata({ topics: known.map(({ name }) => prefix + name) });
  return known.flatMap(({ name, partitions }): readonly TopicDifference[] => {
    const found = topics.find((each) => each.name === prefix + name)?.partitions.length ?? 0;
    if (found === partitions) return [];
    const setting = { setting: "partitions", declared: String(partitions), found: String(found) };
    return [{ topic: name, what: "partitions", ...setting }];
  });
};

const configDifferences = async (
  client: ClientAdmin,
  prefix: string,
  known: readonly TopicSetting[],
): Promise<readonly TopicDifference[]> => {
  const { resources } = await client.describeConfigs({
    includeSynonyms: false,
    resources: known.map((setting) => ({
      type: TOPIC_RESOURCE,
      name: prefix + setting.name,
      configNames: Object.keys(configOf(setting)),
    })),
  });
  return known.flatMap((setting) => {
    const entries = resources.find((each) => each.resourceName === prefix + setting.name)?.configEntries ?? [];
    return entriesOf(setting).flatMap(({ name, value }): readonly TopicDifference[] => {
      const found = entries.find((entry) => entry.configName === name)?.configValue ?? null;
      return found === value ? [] : [{ topic: setting.name, what: "config", setting: name, declared: value, found }];
    });
  });
};

/**
 * The settings of each topic that an operator has made and that are not declared here: altering
 * replaces all settings of a topic.
 */
const undeclaredEntries = async (client: ClientAdmin, prefix: string, altered: readonly TopicSetting[]) => {
  const { resources } = await client.describeConfigs({
    includeSynonyms: false,
    resources: altered.map(({ name }) => ({ type: TOPIC_RESOURCE, name: prefix + name })),
  });
  return new Map(
    altered.map((setting) => {
      const entries = resources.find((each) => each.resourceName === prefix + setting.name)?.configEntries ?? [];
      const undeclared = entries.filter(
        ({ configName, configSource }) => Number(configSource) === OF_THE_TOPIC && !(configName in configOf(setting)),
      );
      return [setting.name, undeclared.map(({ configName: name, configValue: value }) => ({ name, value }))] as const;
    }),
  );
};

// Brokers of a starting cluster come up one after the other, and a topic needs several of them.
const BROKERS_MS = 20_000;
const lacksBrokers = (error: unknown): boolean => {
  const { type, cause, errors } = (error ?? {}) as Readonly<Record<string, unknown>>;
  if (type === "INVALID_REPLICATION_FACTOR" || (Array.isArray(errors) && errors.some(lacksBrokers))) return true;
  return cause instanceof Error && cause !== error && lacksBrokers(cause);
};

/** The broker decides the number of copies. A topic that exists by then is left alone. */
const create = (client: ClientAdmin, prefix: string, missing: readonly TopicSetting[]): Promise<unknown> => {
  const topics = missing.map((setting) => ({
    topic: prefix + setting.name,
    numPartitions: setting.partitions,
    replicationFactor: -1,
    configEntries: entriesOf(setting),
  }));
  return retry(() => client.createTopics({ waitForLeaders: true, topics }), {
    deadlineMs: BROKERS_MS,
    isTransient: lacksBrokers,
  });
};

/** Returns the differences that it has not changed; undeclared settings stay unchanged. */
export const applyTopics = async (
  client: ClientAdmin,
  prefix: string,
  declared: readonly TopicSetting[],
): Promise<readonly TopicDifference[]> => {
  const differences = await planTopics(client, prefix, declared);
  const having = (what: TopicDifference["what"]) =>
    declared.filter(({ name }) => differences.some((each) => each.topic === name && each.what === what));
  const missing = having("missing");
  if (missing.length > 0) await create(client, prefix, missing);
  const altered = having("config");
  if (altered.length > 0) {
    const undeclared = await undeclaredEntries(client, prefix, altered);
    await client.alterConfigs({
      validateOnly: false,
      resources: altered.map((setting) => ({
        type: TOPIC_RESOURCE,
        name: prefix + setting.name,
        configEntries: [...(undeclared.get(setting.name) ?? []), ...entriesOf(setting)],
      })),
    });
  }
  return differences.filter(({ what }) => what === "partitions");
};

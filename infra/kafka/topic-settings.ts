// Compares what is declared of topics with the broker, and makes the broker agree.
import { retry } from "../runtime/timing/retry.ts";
import type { ClientAdmin } from "./client/types.ts";

/** What is declared of a topic; topics.ts lists them. */
export interface TopicSetting {
  readonly name: string;
  readonly partitions: number;
  /** -1: for good. */
  readonly retentionMs: number;
  readonly compacted?: boolean;
  /** Each write is on the disk of its broker before it is acknowledged: for a log of one broker. */
  readonly synced?: boolean;
}

/**
 * Where the broker differs from what is declared. `partitions` is never applied: keys would move
 * away from what is remembered of them.
 */
export interface TopicDifference {
  readonly topic: string;
  readonly what: "missing" | "partitions" | "config";
  readonly setting: string;
  readonly declared: string;
  readonly found: string | null;
}

const TOPIC_RESOURCE = 2;
/** The source of a value that was set on the topic itself, and is no default. */
const OF_THE_TOPIC = 1;

/**
 * Record time is the broker's: offsets by time must not depend on the clocks of clients
 * (infra/kafka/README.md K22).
 */
const configOf = (declared: TopicSetting): Readonly<Record<string, string>> => ({
  "retention.ms": String(declared.retentionMs),
  "cleanup.policy": declared.compacted === true ? "compact" : "delete",
  "message.timestamp.type": "LogAppendTime",
  ...(declared.synced === true ? { "flush.messages": "1" } : {}),
});

const entriesOf = (setting: TopicSetting) =>
  Object.entries(configOf(setting)).map(([name, value]) => ({ name, value }));

/** Topics of the prefix, without it. */
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
 * What an operator has set on topics and nothing here declares, by topic: altering replaces all of
 * a topic's settings.
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

// Brokers of a cluster that starts come one after the other, and a topic wants several of them.
const BROKERS_MS = 20_000;
const lacksBrokers = (error: unknown): boolean => {
  const { type, cause, errors } = (error ?? {}) as Readonly<Record<string, unknown>>;
  if (type === "INVALID_REPLICATION_FACTOR" || (Array.isArray(errors) && errors.some(lacksBrokers))) return true;
  return cause instanceof Error && cause !== error && lacksBrokers(cause);
};

/** Copies are as many as the broker says; a topic that is there by then is left alone. */
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

/** Answers the differences that it has not touched; what is not declared stays as it is. */
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

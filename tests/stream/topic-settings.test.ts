// Makes topics on a cluster whose brokers start one after the other.
import { createRequire } from "node:module";
import { expect, test } from "vitest";
import { letterTopics } from "../../edges/dead-letters.ts";
import type { ClientAdmin } from "../../infra/kafka/client/types.ts";
import { applyTopics } from "../../infra/kafka/topic-settings.ts";
import { topicSettings } from "../../topics.ts";

const { KafkaJSAggregateError, KafkaJSCreateTopicError } = createRequire(import.meta.url)("kafkajs/src/errors.js");
const { createErrorFromCode } = createRequire(import.meta.url)("kafkajs/src/protocol/error.js");

/**
 * A cluster without topics that first answers one error code of Kafka for each call, and then makes
 * them.
 */
const refusing = (...codes: readonly number[]) => {
  const asked: object[] = [];
  const client = {
    listTopics: async () => [],
    createTopics: async ({ topics }: { topics: readonly { topic: string; replicationFactor: number }[] }) => {
      const code = codes[asked.length];
      asked.push(topics.map(({ topic, replicationFactor }) => [topic, replicationFactor]));
      if (code !== undefined)
        throw new KafkaJSAggregateError("Topic creation errors", [
          new KafkaJSCreateTopicError(createErrorFromCode(code), topics[0]!.topic),
        ]);
    },
  };
  return { client: client as unknown as ClientAdmin, asked };
};
const declared = [{ name: "a", partitions: 12, retentionMs: -1 }];
const [INVALID_REPLICATION_FACTOR, TOPIC_AUTHORIZATION_FAILED] = [38, 29];

test("a topic that wants three brokers waits until they are there, and leaves their number to them", async () => {
  const { client, asked } = refusing(INVALID_REPLICATION_FACTOR, INVALID_REPLICATION_FACTOR);
  expect(await applyTopics(client, "x.", declared)).toEqual([]);
  expect(asked).toEqual(Array(3).fill([["x.a", -1]]));
});

test("any other refusal is not tried again", async () => {
  const { client, asked } = refusing(TOPIC_AUTHORIZATION_FAILED);
  await expect(applyTopics(client, "", declared)).rejects.toThrow("Topic creation errors");
  expect(asked).toHaveLength(1);
});

test("every topic of letters ends after 90 days and at 2 GiB of a partition, and no other has bytes", async () => {
  const made = new Map<string, Record<string, string>>();
  type Entries = readonly { readonly name: string; readonly value: string }[];
  const client = {
    listTopics: async () => [],
    createTopics: async ({ topics }: { topics: readonly { topic: string; configEntries: Entries }[] }) => {
      for (const { topic, configEntries } of topics)
        made.set(topic, Object.fromEntries(configEntries.map(({ name, value }) => [name, value])));
    },
  };
  await applyTopics(client as unknown as ClientAdmin, "", topicSettings);
  for (const [topic, config] of made)
    expect([topic, config["retention.ms"], config["retention.bytes"]]).toEqual(
      Object.values(letterTopics).includes(topic)
        ? [topic, String(90 * 86_400_000), String(2 * 1024 ** 3)]
        : [topic, expect.any(String), undefined],
    );
  expect(made.size).toBe(topicSettings.length);
});

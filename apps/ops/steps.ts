// apps/ops/steps.ts - what must be done between the servers and the apps, in this order and at every start: topics, schemas, tables, demo clients.
import { topicSettings, topics } from "../../schemas/generated.ts";
import { openClickhouse } from "../../sinks/clickhouse/client.ts";
import { migrate as migrateClickhouse } from "../../sinks/clickhouse/migrate.ts";
import { migrate as migratePostgres } from "../../sinks/postgres/migrate.ts";
import { openKafka } from "../../stream/kafka.ts";
import { openRegistry } from "../../stream/registry.ts";
import type { Step } from "../stack/supervisor.ts";
import type { AdminAccess } from "./config.ts";
import { seedStep } from "./seed-step.ts";

const prepareTopics: Step = {
  name: "topics",
  run: async ({ env }) => {
    const admin = await openKafka({
      brokers: env.KAFKA_BROKERS!,
      clientId: "tributary-start",
      topicPrefix: env.KAFKA_TOPIC_PREFIX ?? "",
    }).admin();
    try {
      const left = await admin.apply(topicSettings);
      if (left.length > 0)
        throw new Error(
          `topics differ from topics.yaml and were left alone: ${left.map(({ topic, setting }) => `${topic} ${setting}`).join(", ")}; see: npx tributary topics plan`,
        );
    } finally {
      await admin.close();
    }
  },
};
const prepareSchemas: Step = {
  name: "schemas",
  run: async ({ env }) => {
    await openRegistry({ url: env.SCHEMA_REGISTRY_URL!, topicPrefix: env.KAFKA_TOPIC_PREFIX ?? "" }).apply(Object.values(topics));
  },
};

/** Both stores, each resumable. `tell` hears every file that is applied. */
export const migrateAll = async (
  { adminUrl, appPassword, clickhouseUrl }: AdminAccess,
  tell: (line: string) => void = () => undefined,
): Promise<void> => {
  await migratePostgres(adminUrl, { appPassword, log: tell });
  const clickhouse = openClickhouse(clickhouseUrl);
  try {
    await migrateClickhouse(clickhouse);
  } finally {
    await clickhouse.close();
  }
};
const prepareTables: Step = {
  name: "tables",
  run: ({ env }) =>
    migrateAll({ adminUrl: env.POSTGRES_ADMIN_URL!, appPassword: env.POSTGRES_APP_PASSWORD!, clickhouseUrl: env.CLICKHOUSE_URL! }),
};

export const steps: readonly Step[] = [prepareTopics, prepareSchemas, prepareTables, seedStep];

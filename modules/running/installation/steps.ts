// The steps between the start of the servers and of the apps, in this order and at every start:
// topics, schemas, tables, demonstration clients.

import { openRegistry } from "../../../infra/avro/registry.ts";
import { openClickhouse } from "../../../infra/clickhouse/client.ts";
import { status as clickhouseStatus, migrate as migrateClickhouse } from "../../../infra/clickhouse/migrate.ts";
import type { Step } from "../../../infra/embedded/supervisor.ts";
import { openKafka } from "../../../infra/kafka/kafka.ts";
import { withAdvisoryLock } from "../../../infra/postgres/advisory-lock.ts";
import { migrate as migratePostgres, status as postgresStatus } from "../../../infra/postgres/migrate.ts";
import { topicSettings, topics } from "../../../topics.ts";
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
          "topics differ from topics.yaml and were left alone: " +
            `${left.map(({ topic, setting }) => `${topic} ${setting}`).join(", ")}; see: npx tributary ` +
            "topics plan",
        );
    } finally {
      await admin.close();
    }
  },
};
const prepareSchemas: Step = {
  name: "schemas",
  run: async ({ env }) => {
    await openRegistry({ url: env.SCHEMA_REGISTRY_URL!, topicPrefix: env.KAFKA_TOPIC_PREFIX ?? "" }).apply(
      Object.values(topics),
    );
  },
};

/**
 * Credentials for migrations: the owner of the tables, and the address of the application's role.
 */
export interface AdminAccess {
  readonly adminUrl: string;
  /** The role tributary_app gets the password in this address. */
  readonly appUrl: string;
  readonly clickhouseUrl: string;
  /** The ClickHouse cluster, when its tables are replicated. */
  readonly cluster?: string | undefined;
}

/**
 * Returns the password in POSTGRES_URL, the address of the application's role. Throws with a hint
 * when the address names another role or has no password.
 */
export const appPasswordOf = (appUrl: string): string => {
  const { username, password } = new URL(appUrl);
  if (username === "tributary_app" && password !== "") return decodeURIComponent(password);
  throw new Error(
    "POSTGRES_URL must name the role tributary_app and its password, postgres://tributary_app:password@host:5432/" +
      "database: migrations give the role that password",
  );
};

/** A step may rewrite every row of a large table, and a second caller waits for all of them. */
const LONGEST_MS = 6 * 3_600_000;

/**
 * Migrates both stores. Each migration can resume; concurrent callers take turns. `tell` is called
 * for every file that is applied.
 */
export const migrateAll = async (
  { adminUrl, appUrl, clickhouseUrl, cluster }: AdminAccess,
  tell: (line: string) => void = () => undefined,
): Promise<void> => {
  await migratePostgres(adminUrl, { appPassword: appPasswordOf(appUrl), log: tell });
  const clickhouse = openClickhouse(clickhouseUrl, { name: "tributary-migrate", timeoutMs: LONGEST_MS });
  try {
    // ClickHouse has no locks: two concurrent callers would rename and drop each other's tables.
    await withAdvisoryLock(adminUrl, "tributary.migrate.clickhouse", LONGEST_MS, () =>
      migrateClickhouse(clickhouse, { log: tell, cluster }),
    );
  } finally {
    await clickhouse.close();
  }
};

/**
 * Returns for both stores which files are applied and which are pending (`clickhouse/010_x.sql`),
 * and what makes `migrateAll` refuse. Writes nothing.
 */
export const migrationStatus = async ({
  adminUrl,
  clickhouseUrl,
}: Pick<AdminAccess, "adminUrl" | "clickhouseUrl">): Promise<{
  readonly applied: readonly string[];
  readonly pending: readonly string[];
  readonly problems: readonly string[];
}> => {
  const clickhouse = openClickhouse(clickhouseUrl, { name: "tributary-migrate" });
  try {
    const [ofPostgres, ofClickhouse] = await Promise.all([postgresStatus(adminUrl), clickhouseStatus(clickhouse)]);
    const ofBoth = (postgres: readonly string[], clickhouse: readonly string[]): readonly string[] => [
      ...postgres.map((file) => `postgres/${file}`),
      ...clickhouse.map((file) => `clickhouse/${file}`),
    ];
    const filesOf = (rows: readonly { readonly file: string }[]): readonly string[] => rows.map(({ file }) => file);
    return {
      applied: ofBoth(filesOf(ofPostgres.applied), filesOf(ofClickhouse.applied)),
      pending: ofBoth(ofPostgres.pending, ofClickhouse.pending),
      problems: [...ofPostgres.problems, ...ofClickhouse.problems],
    };
  } finally {
    await clickhouse.close();
  }
};
const prepareTables: Step = {
  name: "tables",
  run: ({ env }) =>
    migrateAll({
      adminUrl: env.POSTGRES_ADMIN_URL!,
      appUrl: env.POSTGRES_URL!,
      clickhouseUrl: env.CLICKHOUSE_URL!,
    }),
};

export const steps: readonly Step[] = [prepareTopics, prepareSchemas, prepareTables, seedStep];

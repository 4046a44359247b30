// Checks that the servers which a command needs answer, so that it ends within 5 s with the names
// of those that are away or hang.
import { askHttp } from "../../infra/outbound/ask-http.ts";
import { within } from "../../infra/runtime/timing/time-limit.ts";
import { guideOf } from "../../modules/base/alerts/guide.ts";
import { addresses, redisUrl } from "./config.ts";

export type Server = "postgres" | "clickhouse" | "redis" | "kafka" | "registry";

/** Less than the 5 s within which a command must report it. */
const ANSWER_MS = 3_000;

interface ServerCheck {
  readonly name: string;
  readonly address: () => string;
  readonly page: string;
  /** Makes a small round trip, because the port of a stopped process still opens. */
  readonly ask: () => Promise<unknown>;
}

const ofUrl = (url: string): string => {
  const { hostname, port } = new URL(url);
  return port === "" ? hostname : `${hostname}:${port}`;
};

const askPostgres = async (): Promise<void> => {
  const [{ openPool }, { pingPostgres }] = await Promise.all([
    import("../../infra/postgres/sql.ts"),
    import("../../infra/postgres/ping.ts"),
  ]);
  const pool = openPool(addresses().postgresUrl, { name: "tributary-ops", max: 1, timeoutMs: ANSWER_MS });
  try {
    await pingPostgres(pool);
  } finally {
    await pool.end();
  }
};

const askRedis = async (): Promise<void> => {
  const { Redis } = await import("ioredis");
  const redis = new Redis(redisUrl(), { lazyConnect: true, maxRetriesPerRequest: 1, connectTimeout: ANSWER_MS });
  redis.on("error", () => undefined);
  try {
    await redis.ping();
  } finally {
    redis.disconnect();
  }
};

const askKafka = async (): Promise<void> => {
  const { openKafka } = await import("../../infra/kafka/kafka.ts");
  const { brokers, topicPrefix } = addresses();
  const admin = await openKafka({ brokers, clientId: "tributary-ops", topicPrefix }).admin();
  await admin.close();
};

/** The user and password of the address go with it. */
const askUrl = async (url: URL): Promise<void> => {
  const { status } = await askHttp(url, { timeoutMs: ANSWER_MS });
  if (status >= 500) throw new Error(`it answers ${status}`);
};

const servers: Readonly<Record<Server, ServerCheck>> = {
  postgres: {
    name: "Postgres",
    address: () => ofUrl(addresses().postgresUrl),
    page: guideOf("relational_store")!.page,
    ask: askPostgres,
  },
  clickhouse: {
    name: "ClickHouse",
    address: () => ofUrl(addresses().clickhouseUrl),
    page: guideOf("analytics_store")!.page,
    ask: () => askUrl(new URL("/ping", addresses().clickhouseUrl)),
  },
  redis: {
    name: "Redis",
    address: () => ofUrl(redisUrl()),
    page: guideOf("cache_store")!.page,
    ask: askRedis,
  },
  kafka: {
    name: "Kafka",
    address: () =>
      addresses()
        .brokers.replace(/^\w+:\/\/(?:[^@/]*@)?/, "")
        .replace(/\?.*$/, ""),
    page: guideOf("event_log")!.page,
    ask: askKafka,
  },
  registry: {
    name: "the schema registry",
    address: () => ofUrl(addresses().registryUrl),
    page: "docs/operate.md#events-are-late",
    ask: () => askUrl(new URL("/subjects", addresses().registryUrl)),
  },
};

/** Describes in a sentence what is wrong with a server; null when it answers. */
const problemOf = async (server: Server): Promise<string | null> => {
  const { name, address, page, ask } = servers[server];
  const where = `${name} (${address()})`;
  try {
    await within(ANSWER_MS, ask(), `no answer within ${ANSWER_MS / 1_000} s`);
    return null;
  } catch (error) {
    const { message, code } = error as Error & { code?: string };
    const cause = (error as Error).cause instanceof Error ? ((error as Error).cause as Error).message : undefined;
    const why = (cause ?? (message || code) ?? "no reason").replace(/\s+/g, " ").slice(0, 200);
    return `${where} does not answer: ${why}. What to do: ${page}`;
  }
};

/** Throws one Error with a line for each server that does not answer. */
export const reach = async (needed: readonly Server[]): Promise<void> => {
  const problems = await Promise.all(needed.map(problemOf));
  const wrong = problems.filter((problem) => problem !== null);
  if (wrong.length > 0) throw new Error(wrong.join("\n"));
};

// The installation under test: its processes by name, its log and its stores. Reads go past every
// proxy.
import { mkdirSync, readFileSync } from "node:fs";
import { Redis } from "ioredis";
import type pg from "pg";
import { openRegistry } from "../../infra/avro/registry.ts";
import { openWire } from "../../infra/avro/wire.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { type Home, openHome, readJson, secretsOf } from "../../infra/embedded/home.ts";
import type { BrokerName } from "../../infra/embedded/service.ts";
import type { Run } from "../../infra/embedded/supervisor.ts";
import { type Admin, type Kafka, openKafka } from "../../infra/kafka/kafka.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { type Control, controlOf } from "../../infra/runtime/stack-control.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import type { Wire } from "../../stream/wire.ts";
import { topics } from "../../topics.ts";
import type { TcpProxy } from "./stage/proxy.ts";

export type FrontedServer = BrokerName | "postgres" | "clickhouse" | "redis" | "registry";
export type Proxies = Readonly<Partial<Record<FrontedServer, TcpProxy>>>;

export interface Target {
  readonly home: string;
  /** The repository whose compiled code runs. */
  readonly root: string;
  /** The folder for files of this session. */
  readonly folder: string;
  /** The environment of the stack's children. */
  readonly env: Readonly<Record<string, string>>;
  readonly run: () => Run;
  readonly control: Control;
  readonly proxies: Proxies;
  /** The process number, or undefined while the process does not run. */
  readonly pid: (name: string) => number | undefined;
  /** Waits until the process is well and has another number than `not`. Returns its number. */
  readonly well: (name: string, deadlineMs: number, not?: number) => Promise<number>;
  /** Returns a function with the lines that the process logged since this call. */
  readonly logSince: (name: string) => () => string;
  readonly kafka: Kafka;
  readonly wire: Wire;
  readonly withAdmin: <T>(work: (admin: Admin) => Promise<T>) => Promise<T>;
  readonly pool: pg.Pool;
  /** The address of the pool of the owner. */
  readonly adminUrl: string;
  /**
   * Queries as the owner of the database, so that row-level security hides nothing. Retries for a
   * while, because a store may just have restarted.
   */
  readonly rows: <T = any>(statement: string) => Promise<readonly T[]>;
  readonly clickhouse: ReturnType<typeof openClickhouse>;
  readonly select: <T = any>(statement: string) => Promise<readonly T[]>;
  readonly command: (statement: string) => Promise<void>;
  readonly redis: Redis;
  readonly close: () => Promise<void>;
}

/** The edge, and the standby edge if there is one. */
export const urlsOf = (target: Target): readonly string[] => {
  const { apps } = target.run();
  return ["ingest", "ingest-standby"].flatMap((name) => apps[name]?.url ?? []);
};

const PATIENCE_MS = 20_000;
/** Reading every row of a table may take longer than a sink may wait. */
const READING_MS = 60_000;

type UrlOf = (name: "postgres" | "clickhouse" | "redis" | "registry", port: number | undefined) => URL;

/** The processes of the stack by name: which run, which are well, and what they log. */
const processesOf = (home: Home, run: () => Run) => {
  const wellPid = (name: string): number | null => {
    const { apps, services: now } = run();
    return (apps[name] ?? (now as Run["apps"])[name])?.pid ?? null;
  };
  const logText = (name: string): string => {
    try {
      return readFileSync(home.path("logs", `${name}.log`), "utf8");
    } catch {
      return "";
    }
  };
  return {
    pid: (name) =>
      (readJson<{ name: string; pid: number }[]>(home.path("children.json")) ?? []).find((child) => child.name === name)
        ?.pid,
    well: (name, deadlineMs, not) =>
      until(`${name} is well`, deadlineMs, async () => {
        const now = wellPid(name);
        if (now === null || now === not) throw new Error(`its process is ${now ?? "being started"}`);
        const opsUrl = run().apps[name]?.ops_url;
        if (opsUrl !== undefined) {
          const answer = await fetch(`${opsUrl}/readyz`, { signal: AbortSignal.timeout(2_000) });
          if (!answer.ok) throw new Error(await answer.text());
        }
        return now;
      }),
    logSince: (name) => {
      const from = logText(name).length;
      return () => logText(name).slice(from);
    },
  } satisfies Pick<Target, "pid" | "well" | "logSince">;
};

/**
 * Clients of the stores and of the log; they bypass the proxy of each service that `ports` names.
 */
const clientsOf = async (brokers: string, adminUrl: string, urlOf: UrlOf, ports: Readonly<Record<string, number>>) => {
  const kafka = openKafka({ brokers, clientId: "tributary-chaos" });
  const wire = await openWire(Object.values(topics), openRegistry({ url: urlOf("registry", ports.registry).href }));
  const pool = openPool(adminUrl, { name: "tributary-chaos", max: 2, timeoutMs: READING_MS });
  const clickhouse = openClickhouse(urlOf("clickhouse", ports.clickhouse).href, {
    name: "tributary-chaos",
    timeoutMs: READING_MS,
  });
  const redis = new Redis(urlOf("redis", ports.redis).href, { lazyConnect: true, maxRetriesPerRequest: 2 });
  redis.on("error", () => undefined);
  return {
    kafka,
    wire,
    withAdmin: async (work) => {
      const admin = await kafka.admin();
      try {
        return await work(admin);
      } finally {
        await admin.close();
      }
    },
    pool,
    rows: (statement) => until("Postgres answers", PATIENCE_MS, async () => (await pool.query(statement)).rows),
    clickhouse,
    select: <T>(statement: string) =>
      until(
        "ClickHouse answers",
        PATIENCE_MS,
        async () =>
          (await (await clickhouse.query({ query: statement, format: "JSONEachRow" })).json()) as readonly T[],
      ),
    command: async (statement) =>
      void (await until("ClickHouse answers", PATIENCE_MS, () => clickhouse.command({ query: statement }))),
    redis,
    close: async () => {
      redis.disconnect();
      await pool.end();
      await clickhouse.close();
    },
  } satisfies Partial<Target>;
};

/**
 * Opens the stack in a folder: the one that this process started, or the one of `npm start`. Throws
 * one sentence if none runs there.
 */
export const openTarget = async (homeFolder: string, proxies: Proxies = {}): Promise<Target> => {
  const home = openHome(homeFolder);
  const run = (): Run => {
    const found = readJson<Run>(home.path("run.json"));
    if (found === undefined) throw new Error(`nothing runs in ${home.folder}; start it in another terminal: npm start`);
    return found;
  };
  const ports = readJson<Record<string, number>>(home.path("ports.json")) ?? {};
  const secrets = secretsOf(home);
  const { services } = run();
  const urlOf: UrlOf = (name, port) => {
    const address = services[name];
    if (address === undefined || !("url" in address)) throw new Error(`the stack in ${home.folder} runs no ${name}`);
    const url = new URL(address.url);
    if (port !== undefined) url.port = String(port);
    return url;
  };
  const brokers = services.kafka !== undefined && "brokers" in services.kafka ? services.kafka.brokers : "";
  const adminUrl = urlOf("postgres", ports.postgres);
  adminUrl.username = "tributary_owner";
  adminUrl.password = secrets.postgresOwner;
  const folder = home.path("chaos");
  mkdirSync(folder, { recursive: true });

  const environment = {
    TRIBUTARY_SECRET: secrets.tributary,
    TRIBUTARY_HOME: home.folder,
    OBJECT_STORE_URL: `file://${home.path("objects")}`,
    KAFKA_BROKERS: brokers,
    CLICKHOUSE_URL: urlOf("clickhouse", undefined).href,
    POSTGRES_URL: urlOf("postgres", undefined).href,
    REDIS_URL: urlOf("redis", undefined).href,
    SCHEMA_REGISTRY_URL: urlOf("registry", undefined).href,
  };
  return {
    home: home.folder,
    root: home.root,
    folder,
    env: environment,
    run,
    control: controlOf(run()),
    proxies,
    adminUrl: adminUrl.href,
    ...processesOf(home, run),
    ...(await clientsOf(brokers, adminUrl.href, urlOf, ports)),
  };
};

// The whole product on its own servers, for tests that kill parts of it and count what remains.
import { spawn } from "node:child_process";
import { cpSync, existsSync } from "node:fs";
import { join } from "node:path";
import type pg from "pg";
import { openRegistry } from "../../infra/avro/registry.ts";
import { openWire } from "../../infra/avro/wire.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { repositoryRoot } from "../../infra/embedded/home.ts";
import type { ServiceName } from "../../infra/embedded/service.ts";
import type { App, Stack } from "../../infra/embedded/supervisor.ts";
import { type Admin, type Kafka, openKafka } from "../../infra/kafka/kafka.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { createToken } from "../../modules/access/tokens/tokens.ts";
import { groupsOf } from "../../modules/log/groups/hosting.ts";
import { apps as productApps } from "../../modules/running/installation/product.ts";
import type { Demo } from "../../modules/running/installation/seed.ts";
import { steps } from "../../modules/running/installation/steps.ts";
import type { Recorded, Topic } from "../../stream/flow.ts";
import { UnknownSchema, UnreadableRecord, type Wire } from "../../stream/wire.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import { workshop } from "../stack/home-for-test.ts";
import { stopLoads } from "./e2e-load.ts";
import { fillHome } from "./golden-home.ts";
import { until } from "./waits.ts";

export { until };
export const root = repositoryRoot();

/** A record in the log. */
export interface Stored<T = any> {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, string>>;
  /** Throws Unreadable for garbage. */
  readonly event: () => Recorded<T>;
}
export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}
export interface GroupLag {
  readonly group: string;
  readonly topic: string;
  readonly lag: number;
}

export interface Product {
  readonly stack: Stack;
  /** Messages of the supervisor so far, one sentence each. */
  readonly said: () => readonly string[];
  readonly kafka: Kafka;
  readonly admin: Admin;
  readonly wire: Wire;
  /** Queries as the owner of the database, to whom row-level security does not apply. */
  readonly rows: <T = any>(statement: string) => Promise<readonly T[]>;
  readonly clickhouse: <T = any>(statement: string) => Promise<readonly T[]>;
  /** A client of the demonstration. */
  readonly client: (slug: string) => { readonly id: number; readonly slug: string; readonly token: string };
  /** A tracking link of the demonstration. */
  readonly link: (code: string) => Demo["links"][number];
  /** More tokens of a client: each may send 100 requests a minute. */
  readonly tokens: (clientId: number, count: number) => Promise<readonly string[]>;
  readonly ingestUrl: string;
  readonly read: <T = any>(topic: string) => Promise<readonly Stored<T>[]>;
  /** The readable events of a topic. */
  readonly events: <T = any>(topic: string) => Promise<readonly Recorded<T>[]>;
  /**
   * The groups in the order of the data flow. If their lags are zero one after the other, nothing
   * is under way.
   */
  readonly lags: () => Promise<readonly GroupLag[]>;
  /** Waits until every group has read everything. */
  readonly quiet: (deadlineMs: number) => Promise<void>;
  /** Starts the command line; `done` resolves when it ends. */
  readonly tributary: (...args: readonly string[]) => ReturnType<typeof spawned>;
  /**
   * Kills a process, by default with SIGKILL. Resolves with both process ids once its replacement
   * runs.
   */
  readonly replaced: (
    name: string,
    deadlineMs: number,
    kill?: NodeJS.Signals,
  ) => Promise<{ readonly was: number; readonly is: number }>;
  readonly clear: () => Promise<void>;
}

/** The event of a record; none where it cannot be read. */
export const readable = <T>({ event }: Stored<T>): readonly Recorded<T>[] => {
  try {
    return [event()];
  } catch (error) {
    if (error instanceof UnreadableRecord || error instanceof UnknownSchema) return [];
    throw error;
  }
};

/** Starts a process and keeps its output. */
export const spawned = (
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  isLeader = false,
) => {
  const child = spawn(process.execPath, [...args], {
    cwd: root,
    env,
    stdio: ["ignore", "pipe", "pipe"],
    detached: isLeader,
  });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (text) => (stdout += text));
  child.stderr.on("data", (text) => (stderr += text));
  const done = new Promise<Ran>((resolve) => child.once("close", (code) => resolve({ code, stdout, stderr })));
  return { child, done, stdout: () => stdout, stderr: () => stderr };
};

// Variables that would lead a test to servers of the developer's shell.
const OUTSIDE = [
  "KAFKA_BROKERS",
  "CLICKHOUSE_URL",
  "POSTGRES_URL",
  "POSTGRES_ADMIN_URL",
  "REDIS_URL",
  "SCHEMA_REGISTRY_URL",
  "OIDC_ISSUER",
  "MERCADOPAGO_URL",
];
export const environmentOf = (home: string): Readonly<Record<string, string | undefined>> => ({
  ...process.env,
  ...Object.fromEntries(OUTSIDE.map((name) => [name, undefined])),
  NODE_OPTIONS: undefined,
  TRIBUTARY_HOME: home,
});

const SERVICES: readonly ServiceName[] = ["kafka", "postgres", "clickhouse", "redis", "registry"];

/** Starts everything in a new folder. Call it in beforeAll, and `clear` in afterAll. */
export const startProduct = async (
  apps: readonly App[] = productApps,
  more: readonly ServiceName[] = [],
): Promise<Product> => {
  const lines: string[] = [];
  const { stack, clear } = await startInstallation(apps, more, (line) => void lines.push(line));
  return openProduct(stack, () => lines, clear);
};

/**
 * An installation in a new folder, which `clear` stops and removes. `tell` gets the messages of its
 * supervisor.
 */
export const startInstallation = async (
  apps: readonly App[],
  more: readonly ServiceName[],
  tell: (line: string) => void,
): Promise<{ readonly stack: Stack; readonly clear: () => Promise<void> }> => {
  for (const { module } of apps)
    if (!existsSync(join(root, "dist", module)))
      throw new Error(`dist/${module} is missing; compile first: npm run build`);
  const here = workshop();
  await fillHome(here.home);
  const onEvent = ({ text }: { readonly text: string }) => tell(text);
  const stack = await here.start({ services: [...SERVICES, ...more], steps, apps, onEvent });
  const clear = async (): Promise<void> => {
    if (process.env.KEEP_LOGS !== undefined)
      cpSync(join(here.home, "logs"), process.env.KEEP_LOGS, { recursive: true });
    await here.clear();
  };
  return { stack, clear };
};

/**
 * Opens the connections of a test to an installation. `clear` closes them and then calls `leave`.
 */
export const openProduct = async (
  stack: Stack,
  said: () => readonly string[],
  leave: () => Promise<void>,
): Promise<Product> => {
  const { env } = stack;
  const demo = () => stack.run.demo as unknown as Demo;
  const kafka = openKafka({ brokers: env.KAFKA_BROKERS!, clientId: "test" });
  const admin = await kafka.admin();
  const wire = await openWire(Object.values(topics), openRegistry({ url: env.SCHEMA_REGISTRY_URL! }));
  const owner: pg.Pool = openPool(env.POSTGRES_ADMIN_URL!, { max: 2 });
  const app: pg.Pool = openPool(env.POSTGRES_URL!, { max: 1 });
  const analytics = openClickhouse(env.CLICKHOUSE_URL!);
  // A copy of the log intentionally waits up to a minute for its next file;
  // tests/guarantees/archive.test.ts waits for that.
  const groups = groupsOf(
    pipeline,
    productApps.filter(({ module }) => module.startsWith("apps/worker/")).flatMap(({ args }) => args ?? []),
  ).filter((group) => group.is !== "copy");

  const lags = async (): Promise<readonly GroupLag[]> => {
    const found: GroupLag[] = [];
    for (const { name, reads } of groups) {
      const partitions = await admin.lag(name, [reads.name]);
      found.push({ group: name, topic: reads.name, lag: partitions.reduce((sum, { lag }) => sum + lag, 0) });
    }
    return found;
  };
  const named = new Map(Object.values(topics).map((topic) => [topic.name, topic as Topic<any>]));
  const read = async (topic: string): Promise<readonly Stored[]> => {
    const found: Stored[] = [];
    await kafka.replay({
      topics: [topic],
      onBatch: ({ partition, messages }) => {
        for (const { offset, key, value, headers } of messages)
          found.push({
            topic,
            partition,
            offset,
            key,
            value,
            headers: Object.fromEntries(Object.entries(headers).map(([name, text]) => [name, String(text)])),
            event: () => wire.decode(named.get(topic)!, value, { topic, partition, offset }),
          });
      },
    });
    return found;
  };

  return {
    stack,
    said,
    kafka,
    admin,
    wire,
    read,
    events: async <T>(topic: string) => (await read(topic)).flatMap(readable<T>),
    lags,
    ingestUrl: stack.run.apps.ingest?.url ?? "",
    rows: async (statement) => (await owner.query(statement)).rows,
    clickhouse: async <T>(statement: string) =>
      (await (await analytics.query({ query: statement, format: "JSONEachRow" })).json()) as readonly T[],
    client: (slug) => {
      const { id, ingest_token: token } = demo().clients.find((one) => one.slug === slug)!;
      return { id, slug, token };
    },
    link: (code) => demo().links.find((one) => one.code === code)!,
    tokens: async (clientId, count) => {
      const made: string[] = [];
      for (let n = 0; n < count; n += 1)
        made.push((await createToken(app, { kind: "ingest", label: `load ${n}`, client_id: clientId })).token);
      // A new token is known everywhere within a second; earlier requests would be refused.
      const known = async (token: string): Promise<void> => {
        const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
        const { status } = await fetch(`${stack.run.apps.ingest!.url}/ingest/batch`, {
          method: "POST",
          headers,
          body: "{}",
        });
        if (status !== 400) throw new Error(`the edge answers ${status}`);
      };
      await until("the edge knows the newest token", 30_000, () => known(made.at(-1)!));
      return made;
    },
    quiet: (deadlineMs) =>
      until("every group has read everything", deadlineMs, async () => {
        const waiting = (await lags()).filter(({ lag }) => lag > 0);
        if (waiting.length > 0) throw new Error(waiting.map(({ group, lag }) => `${group} lags by ${lag}`).join(", "));
      }),
    tributary: (...args) => spawned(["dist/apps/cli/main.js", ...args], environmentOf(stack.home)),
    replaced: async (name, deadlineMs, kill = "SIGKILL") => {
      const was = stack.pid(name);
      if (was === undefined) throw new Error(`${name} does not run`);
      stack.kill(name, kill);
      const is = await until(`${name} runs again`, deadlineMs, () => {
        const now = stack.pid(name);
        if (now === undefined || now === was) throw new Error(`its process is ${now}`);
        return now;
      });
      return { was, is };
    },
    clear: async () => {
      await stopLoads();
      await admin.close();
      await owner.end();
      await app.end();
      await analytics.close();
      await leave();
    },
  };
};

// Checks the machine and a stack, and reports what is wrong and how to fix it. `tributary doctor`
// prints the result.
import { execFile } from "node:child_process";
import { statfsSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import type { StackConfig } from "../../../infra/embedded/config.ts";
import { type Home, readJson } from "../../../infra/embedded/home.ts";
import { isFree } from "../../../infra/embedded/ports.ts";
import { listedAlive } from "../../../infra/embedded/roster.ts";
import { jarsAreComplete } from "../../../infra/embedded/services/jars.ts";
import { askKafka } from "../../../infra/embedded/services/kafka.ts";
import { askRedis } from "../../../infra/embedded/services/redis.ts";
import type { Run } from "../../../infra/embedded/supervisor.ts";
import { openPool } from "../../../infra/postgres/sql.ts";
import { type Identity, isAlive } from "../../../infra/runtime/lock.ts";
import { pipeline } from "../../../topology.ts";
import { hostings } from "../../log/groups/group-holds.ts";
import { unhosted } from "../../log/groups/hosts.ts";
import { clientRetentions } from "../../privacy/retention.ts";
import { firstSteps } from "./first-steps.ts";

export interface Check {
  readonly name: string;
  readonly ok: boolean;
  /** The finding, in one line. */
  readonly detail: string;
  /** How to fix it when it is not ok. */
  readonly cure?: string;
}

/** Postgres error codes for a table, and for a role, that the migrations have not made yet. */
const NOT_MIGRATED: readonly unknown[] = ["42P01", "22023"];

/** docs/design/contracts.md, "Retention". */
const MOST_MONTHS = 24;

type Finding = Omit<Check, "name">;

// Beyond this skew, windows decided by two clocks may differ (docs/design/laws.md, "Clocks").
const CLOCK_SKEW_LIMIT_MS = 300;
// A day of the demonstration, and the log segments that the broker preallocates.
const DISK_NEEDED_BYTES = 5 * 1024 ** 3;

/**
 * Runs every check; a store is checked only when its address is in the environment or in
 * `run.json`. Takes about a second.
 */
export async function doctor(home: Home, config: StackConfig): Promise<readonly Check[]> {
  const run = readJson<Run>(home.path("run.json"));
  const services = run?.services ?? {};
  const urlOf = (outside: string | undefined, known: object | undefined) =>
    outside ?? (known !== undefined && "url" in known ? String(known.url) : undefined);
  const needsJava = config.KAFKA_BROKERS === undefined;
  const checks: [string, () => Promise<Finding> | Finding][] = [
    ["node", checkNode],
    ...(needsJava
      ? ([
          ["java", () => checkJava(config)],
          ["maven", () => checkMaven(home, config)],
        ] as [string, () => Promise<Finding>][])
      : []),
    ["disk", () => checkDisk(home)],
    ["stack", () => checkRun(home, run)],
    ["ports", () => checkPorts(home)],
  ];
  const kafka =
    config.KAFKA_BROKERS ??
    (services.kafka !== undefined && "brokers" in services.kafka ? services.kafka.brokers : undefined);
  if (kafka !== undefined) checks.push(["kafka", () => checkKafka(kafka)]);
  const postgres = config.POSTGRES_ADMIN_URL ?? config.POSTGRES_URL ?? ownerUrl(home, services.postgres);
  if (postgres !== undefined)
    checks.push(["postgres", () => checkPostgres(postgres)], ["clock", () => checkClock(postgres)]);
  const application = config.POSTGRES_URL ?? ownerUrl(home, services.postgres);
  const isDemo = config.OIDC_ISSUER === undefined && services.identity !== undefined;
  if (application !== undefined) checks.push(["users", () => checkUsers(application, isDemo)]);
  if (application !== undefined)
    checks.push(["retention", () => checkRetention(application)], ["hosting", () => checkHosting(application)]);
  const clickhouse = urlOf(config.CLICKHOUSE_URL, services.clickhouse);
  if (clickhouse !== undefined) checks.push(["clickhouse", () => checkClickhouse(clickhouse)]);
  const redis = urlOf(config.REDIS_URL, services.redis);
  if (redis !== undefined) checks.push(["redis", () => checkRedis(redis)]);
  const registry = urlOf(config.SCHEMA_REGISTRY_URL, services.registry);
  if (registry !== undefined) checks.push(["registry", () => checkRegistry(registry)]);
  return Promise.all(
    checks.map(async ([name, look]) => {
      try {
        return { name, ...(await look()) };
      } catch (error) {
        return {
          name,
          ok: false,
          detail: (error as Error).message,
          cure: `see that the address of ${name} is right and that it runs (npm start)`,
        };
      }
    }),
  );
}

const good = (detail: string): Finding => ({ ok: true, detail });
const bad = (detail: string, cure: string): Finding => ({ ok: false, detail, cure });

function checkNode(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const isNew = major > 20 || (major === 20 && minor >= 19);
  const detail = `Node ${process.versions.node}, time zones ${process.versions.tz ?? "unknown"}`;
  return isNew ? good(detail) : bad(detail, "install Node 20.19 or newer");
}

async function checkJava({ JAVA_HOME, PATH }: StackConfig): Promise<Finding> {
  const cure = "install a JDK 17 or newer, or set KAFKA_BROKERS to a running Kafka";
  try {
    const { stderr } = await promisify(execFile)(
      JAVA_HOME === undefined ? "java" : join(JAVA_HOME, "bin", "java"),
      ["-version"],
      {
        env: { PATH },
      },
    );
    const version = Number(/version "(?:1\.)?(\d+)/.exec(stderr)?.[1] ?? 0);
    return version >= 17 ? good(`Java ${version}`) : bad(`Java ${version}`, cure);
  } catch {
    return bad("no Java was found", cure);
  }
}

/** Maven is needed once, for the jars. */
async function checkMaven(home: Home, { PATH, JAVA_HOME }: StackConfig): Promise<Finding> {
  if (jarsAreComplete(home)) return good("the jars are there");
  try {
    const { stdout } = await promisify(execFile)("mvn", ["-v"], {
      env: { PATH, ...(JAVA_HOME !== undefined && { JAVA_HOME }) },
    });
    return good(`${stdout.split("\n")[0]}; the jars are fetched at the next start`);
  } catch {
    return bad(
      "no Maven was found, and the jars are not there",
      "install Maven, or set KAFKA_BROKERS and REDIS_URL to running servers",
    );
  }
}

function checkDisk(home: Home): Finding {
  const { bavail, bsize } = statfsSync(home.folder);
  const detail = `${(Number(bavail * bsize) / 1024 ** 3).toFixed(1)} GiB free at ${home.folder}`;
  return bavail * bsize >= DISK_NEEDED_BYTES
    ? good(detail)
    : bad(detail, "free some space, or set TRIBUTARY_HOME to a folder on a larger disk");
}

function checkRun(home: Home, run: Run | undefined): Finding {
  const holder = readJson<Identity>(home.path("lock.json"));
  const runs = holder !== undefined && isAlive(holder);
  if (runs) return good(`runs as process ${holder.pid}${run?.ready ? "" : ", not ready yet"}`);
  const left = listedAlive(home).map(({ name, pid }) => `${name} (process ${pid})`);
  if (left.length > 0)
    return bad(
      `its starter is gone, and what it started still runs: ${left.join(", ")}`,
      "npm start ends them, keeps the data and starts again",
    );
  if (run === undefined) return good("does not run");
  return bad(
    "run.json is left from a stack that ended without a word",
    "npm start ends what it left behind and writes a new one",
  );
}

/**
 * The ports must be free while no stack runs. A running stack occupies its own ports, and so do
 * processes that its starter left behind.
 */
async function checkPorts(home: Home): Promise<Finding> {
  const ports = Object.entries(readJson<Record<string, number>>(home.path("ports.json")) ?? {});
  const holder = readJson<Identity>(home.path("lock.json"));
  if (ports.length === 0 || (holder !== undefined && isAlive(holder))) return good(`${ports.length} chosen`);
  const left = listedAlive(home);
  const isOwn = (port: string): boolean => left.some(({ name }) => port.startsWith(name));
  const taken: string[] = [];
  for (const [name, port] of ports) if (!isOwn(name) && !(await isFree(port))) taken.push(`${name} ${port}`);
  return taken.length === 0
    ? good(`${ports.length} chosen, ${left.length === 0 ? "all free" : "none of another program"}`)
    : bad(`used by other programs: ${taken.join(", ")}`, "npm start takes others in their place");
}

/** Uses the owner: it can connect before the migrations have made the app's role. */
function ownerUrl(home: Home, known: object | undefined): string | undefined {
  if (known === undefined || !("url" in known)) return undefined;
  const url = new URL(String(known.url));
  const password = readJson<{ postgresOwner?: string }>(home.path("secrets.json"))?.postgresOwner;
  if (password === undefined) return url.href;
  url.username = "tributary_owner";
  url.password = password;
  return url.href;
}

async function withPostgres<T>(url: string, ask: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000, query_timeout: 2_000 });
  client.on("error", () => undefined);
  try {
    await client.connect();
    return await ask(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}

async function checkPostgres(url: string): Promise<Finding> {
  const version = await withPostgres(
    url,
    async (client) => (await client.query("SHOW server_version")).rows[0].server_version as string,
  );
  return Number.parseInt(version, 10) >= 15
    ? good(`Postgres ${version}`)
    : bad(`Postgres ${version}`, "use Postgres 15 or newer");
}

/** Users of the demonstration may exist only where its identity provider runs. */
async function checkUsers(url: string, isDemo: boolean): Promise<Finding> {
  const steps = isDemo ? [] : await askApplication(url, firstSteps);
  if (steps === undefined) return notMigrated;
  if (steps.length === 0) return good(isDemo ? "those of the demonstration" : "an admin can come in");
  return bad(steps.map(({ what }) => what).join("; "), steps.map(({ cure }) => cure).join("; "));
}

const notMigrated = bad("the tables are not there, or of an older release", "npx tributary migrate apply");

/** Runs a query; undefined when the migrations have not made its tables or role yet. */
async function askApplication<T>(url: string, ask: (pool: pg.Pool) => Promise<T>): Promise<T | undefined> {
  const pool = openPool(url, { name: "tributary-doctor", max: 1, timeoutMs: 2_000 });
  try {
    return await ask(pool);
  } catch (error) {
    if (!NOT_MIGRATED.includes((error as { readonly code?: string }).code)) throw error;
    return undefined;
  } finally {
    await pool.end();
  }
}

/** Reports retention settings that are not enforced yet, so that no one promises them. */
async function checkRetention(url: string): Promise<Finding> {
  const clients = await askApplication(url, clientRetentions);
  if (clients === undefined) return notMigrated;
  const shorter = clients.filter(({ months }) => months < MOST_MONTHS).map(({ slug, months }) => `${slug} ${months}`);
  const own = shorter.length === 0 ? "" : `, fewer for ${shorter.join(", ")}`;
  return good(
    `the archive keeps events ${MOST_MONTHS} months${own}; ClickHouse, Postgres and the topics that are kept ` +
      "for good are not purged yet (docs/privacy.md)",
  );
}

/**
 * A sink without a worker silently loses what retention removes from its topic, including choices
 * of consent.
 */
async function checkHosting(url: string): Promise<Finding> {
  const recorded = await askApplication(url, hostings);
  if (recorded === undefined) return notMigrated;
  if (recorded.length === 0) return good("no worker has joined yet");
  const missing = unhosted(pipeline, recorded);
  return missing.length === 0
    ? good("every stage and sink")
    : bad(`no worker hosts ${missing.join(", ")}`, "give them to a worker: docs/operate.md shows its arguments");
}

async function checkClock(url: string): Promise<Finding> {
  const skewMs = await withPostgres(url, async (client) => {
    const before = Date.now();
    const { rows } = await client.query("SELECT extract(epoch FROM clock_timestamp()) * 1000 AS now");
    // The server most likely read its clock in the middle of the round trip.
    return Number(rows[0].now) - (before + Date.now()) / 2;
  });
  const detail = `${Math.abs(skewMs).toFixed(0)} ms between this machine and Postgres`;
  return Math.abs(skewMs) <= CLOCK_SKEW_LIMIT_MS
    ? good(detail)
    : bad(detail, "let both machines keep their clocks by NTP");
}

async function checkClickhouse(url: string): Promise<Finding> {
  const target = new URL(url);
  const headers: Record<string, string> = {};
  if (target.username !== "") headers["x-clickhouse-user"] = decodeURIComponent(target.username);
  if (target.password !== "") headers["x-clickhouse-key"] = decodeURIComponent(target.password);
  const answer = await fetch(`${target.origin}/?default_format=TabSeparated`, {
    method: "POST",
    body: "SELECT version()",
    headers,
    signal: AbortSignal.timeout(2_000),
  });
  const version = (await answer.text()).trim();
  if (!answer.ok) return bad(version.slice(0, 200), "see that the user and the password in CLICKHOUSE_URL are right");
  return Number.parseInt(version, 10) >= 24
    ? good(`ClickHouse ${version}`)
    : bad(`ClickHouse ${version}`, "use ClickHouse 24 or newer");
}

async function checkKafka(brokers: string): Promise<Finding> {
  const [, host, port] = /^([\w.-]+):(\d+)/.exec(brokers) ?? [];
  if (host === undefined) return good("its address is known; only a broker without TLS is asked");
  await askKafka(host, Number(port));
  return good(`${host}:${port} answers`);
}

async function checkRedis(url: string): Promise<Finding> {
  const target = new URL(url);
  if (target.protocol !== "redis:") return good("its address is known; only a server without TLS is asked");
  const info = await askRedis(url, "INFO server");
  const version = /(?:valkey|redis)_version:(\S+)/.exec(info)?.[1];
  if (version === undefined)
    return bad(info.trim().slice(0, 200), "see that the user and the password in REDIS_URL are right");
  return Number.parseInt(version, 10) >= 6
    ? good(`Redis ${version}`)
    : bad(`Redis ${version}`, "use Redis 6.2 or newer");
}

async function checkRegistry(url: string): Promise<Finding> {
  const target = new URL(url);
  const login = `${decodeURIComponent(target.username)}:${decodeURIComponent(target.password)}`;
  const headers = login === ":" ? {} : { authorization: `Basic ${Buffer.from(login).toString("base64")}` };
  // fetch refuses an address with credentials, and its error would repeat them.
  [target.username, target.password] = ["", ""];
  const answer = await fetch(`${target.href.replace(/\/$/, "")}/subjects`, {
    headers,
    signal: AbortSignal.timeout(2_000),
  });
  if (!answer.ok) return bad(`answered ${answer.status}`, "see that SCHEMA_REGISTRY_URL is right");
  return good(`${((await answer.json()) as readonly string[]).length} subjects`);
}

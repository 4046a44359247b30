// Finds the installation: addresses from the environment, otherwise those that the running stack
// has written.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { readJson, type Secrets } from "../../infra/embedded/home.ts";
import { withFiles } from "../../infra/runtime/credentials/files.ts";
import { type Keyring, keyringOf, secretsIn } from "../../infra/runtime/keyring.ts";
import type { ControlAddress } from "../../infra/runtime/stack-control.ts";
import type { PublicHosts } from "../../modules/base/public-hosts.ts";
import type { Demo } from "../../modules/running/installation/seed.ts";
import type { AdminAccess } from "../../modules/running/installation/steps.ts";

/** The contents of `.tributary/run.json` (mode 0600), which `npm start` writes. */
export interface Run {
  readonly ready: boolean;
  readonly apps: Readonly<Record<string, { readonly url?: string; readonly ops_url?: string; readonly pid: number }>>;
  readonly services: {
    readonly kafka: { readonly brokers: string; readonly pid?: number };
    readonly clickhouse: { readonly url: string; readonly pid?: number };
    readonly postgres: { readonly url: string; readonly pid?: number };
    readonly redis: { readonly url: string; readonly pid?: number };
    readonly registry: { readonly url: string; readonly pid?: number };
    readonly identity?: { readonly url: string; readonly pid?: number };
    readonly mail?: { readonly url: string; readonly pid?: number };
  };
  /** The control address of the process that started the stack. */
  readonly control?: ControlAddress;
  readonly demo?: Demo;
}
export interface Addresses {
  readonly brokers: string;
  readonly registryUrl: string;
  readonly postgresUrl: string;
  readonly clickhouseUrl: string;
  readonly topicPrefix: string;
}

/** The folder of the embedded stack. */
export const homeOf = (): string => resolve(process.env.TRIBUTARY_HOME ?? ".tributary");

/** Throws one sentence with the cure when nothing runs here. */
export const readRun = (): Run => {
  const file = `${homeOf()}/run.json`;
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    throw new Error(`nothing runs here (${file} does not exist); start it in another terminal: npm start`);
  }
  try {
    return JSON.parse(text) as Run;
  } catch {
    throw new Error(`${file} is cut short, as after a crash; start again: npm start`);
  }
};

/** The environment with what its files hold. Throws naming each file that cannot be used. */
const environment = (): Readonly<Record<string, string | undefined>> => {
  const { env, problems } = withFiles(process.env);
  if (problems.length > 0) throw new Error(problems.join("; "));
  return env;
};

/** Takes each address from the environment, otherwise from the running stack. */
export const addresses = (): Addresses => {
  const { KAFKA_BROKERS, SCHEMA_REGISTRY_URL, POSTGRES_URL, CLICKHOUSE_URL, KAFKA_TOPIC_PREFIX = "" } = environment();
  const isComplete = KAFKA_BROKERS && SCHEMA_REGISTRY_URL && POSTGRES_URL && CLICKHOUSE_URL;
  const services = isComplete ? undefined : readRun().services;
  return {
    brokers: KAFKA_BROKERS ?? services!.kafka.brokers,
    registryUrl: SCHEMA_REGISTRY_URL ?? services!.registry.url,
    postgresUrl: POSTGRES_URL ?? services!.postgres.url,
    clickhouseUrl: CLICKHOUSE_URL ?? services!.clickhouse.url,
    topicPrefix: KAFKA_TOPIC_PREFIX,
  };
};

/** Read separately, because few commands use Redis. */
export const redisUrl = (): string => environment().REDIS_URL ?? readRun().services.redis.url;

/**
 * Returns the public addresses of hosts, otherwise those of the stack whose servers are used;
 * undefined: not configured. Rejects for a wrong one. What checks settings is slow to load.
 */
export const publicHosts = async (): Promise<Pick<PublicHosts, "ingest" | "tracking">> => {
  const { readEnvironment } = await import("../../infra/runtime/environment.ts");
  const { INGEST_URL, TRACKING_URL } = readEnvironment("the command line", ["INGEST_URL", "TRACKING_URL"], process.env);
  const { ingest, links } = environment().POSTGRES_URL ? {} : (readRun().apps as Partial<Run["apps"]>);
  return { ingest: INGEST_URL ?? ingest?.url, tracking: TRACKING_URL ?? links?.url };
};

/** Returns where objects are kept: the embedded stack keeps them in a folder of its home. */
export const objectStoreUrl = (): string => environment().OBJECT_STORE_URL ?? pathToFileURL(`${homeOf()}/objects`).href;

/**
 * Returns what no command may print: the passwords of the environment and of the stack of this
 * folder. Tokens of the demonstration are printed, because people use them.
 */
export const hiddenSecrets = (): readonly string[] => {
  const { services, control } = readJson<Partial<Run>>(`${homeOf()}/run.json`) ?? {};
  const urls = Object.entries(services ?? {}).map(([name, service]) => [name, "url" in service ? service.url : ""]);
  return [
    // A command says by itself which file cannot be used.
    ...secretsIn(withFiles(process.env).env),
    ...secretsIn(Object.fromEntries(urls)),
    ...textsIn(readJson<Secrets>(`${homeOf()}/secrets.json`)),
    ...(control === undefined ? [] : [control.token]),
  ];
};

/** The passwords of logins stand one level below. */
const textsIn = (value: unknown): readonly string[] =>
  typeof value === "string" ? [value] : Object.values(value ?? {}).flatMap(textsIn);

/** Returns the list of secrets from the environment, otherwise that of the stack of this folder. */
export const secretsText = (): string => {
  const text = environment().TRIBUTARY_SECRET || readJson<Secrets>(`${homeOf()}/secrets.json`)?.tributary;
  if (text === undefined) throw new Error("TRIBUTARY_SECRET is needed, as the processes of this installation have it");
  return text;
};

/** Reads the list. Throws naming what is wrong with it, without any value. */
export const keyring = (): Keyring => {
  try {
    return keyringOf(secretsText());
  } catch (error) {
    throw new Error(`TRIBUTARY_SECRET: ${(error as Error).message}`);
  }
};

export interface ReprocessConfig {
  readonly keyring: Keyring;
  /** Where the archive lies; undefined: this process does not know. */
  readonly objectStoreUrl: string | undefined;
  readonly files: {
    readonly GEOIP_CITY_DB: string | undefined;
    readonly GEOIP_ASN_DB: string | undefined;
    readonly NETWORKS_FILE: string | undefined;
  };
}
/**
 * Returns the settings with which a worker computes, for a command that repeats the computation:
 * from the environment, otherwise those that the stack of this folder gives its workers.
 */
export const reprocessing = (): ReprocessConfig => {
  const { OBJECT_STORE_URL, KAFKA_BROKERS, GEOIP_CITY_DB, GEOIP_ASN_DB, NETWORKS_FILE } = environment();
  const home = homeOf();
  return {
    keyring: keyring(),
    objectStoreUrl: OBJECT_STORE_URL ?? (KAFKA_BROKERS === undefined ? `file://${home}/objects` : undefined),
    files: { GEOIP_CITY_DB, GEOIP_ASN_DB, NETWORKS_FILE },
  };
};

/**
 * Returns what migrations need: the owner of the tables, and the application's role with its
 * password. It comes from the environment only, because a running stack migrates itself.
 */
export const adminAccess = (): AdminAccess => {
  const { POSTGRES_ADMIN_URL, POSTGRES_URL } = environment();
  if (!POSTGRES_ADMIN_URL || !POSTGRES_URL)
    throw new Error(
      "POSTGRES_ADMIN_URL (owner of the database) and POSTGRES_URL (the application's role and its password) are " +
        "needed; the embedded stack migrates itself at npm start",
    );
  return { adminUrl: POSTGRES_ADMIN_URL, appUrl: POSTGRES_URL, clickhouseUrl: addresses().clickhouseUrl };
};

// Law R5: reads everything again into empty stores on the same servers, each stage from a copy of
// its own input, and hashes the result.

import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import type pg from "pg";
import { openRegistry } from "../../infra/avro/registry.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { migrate as migrateClickhouse } from "../../infra/clickhouse/migrate.ts";
import { openKafka } from "../../infra/kafka/kafka.ts";
import { migrate as migratePostgres } from "../../infra/postgres/migrate.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { computeWaiting } from "../../modules/figures/rollups/compute-waiting.ts";
import { appPasswordOf } from "../../modules/running/installation/steps.ts";
import { differingRows } from "../../modules/running/state-hash/clickhouse.ts";
import { differingTables, type StateHash, stateHash } from "../../modules/running/state-hash/state-hash.ts";
import { topicSettings, topics } from "../../topics.ts";
import { searchPath } from "./config.ts";
import { type Part, parts, sinkTables } from "./hosting.ts";
import { freePort } from "./stage/free-port.ts";
import type { Target } from "./target.ts";

/**
 * Prefixes of further tables that begin empty: they are derived from the log, or belong to the
 * running installation.
 */
const beginEmpty = [
  ..."memory_ money_days rollup_hours".split(" "),
  ..."dead_letter replay group_ operation outbox stage_ probe incident alert".split(" "),
  ..."ingest_path pull schema_migrations migrations".split(" "),
];
const READY_MS = 90_000;
const DONE_MS = 180_000;
const HOURS_AT_ONCE = 200;

export interface RebuildResult {
  readonly state: StateHash;
  /** Tables that differ from the live state, for ClickHouse with their first differing rows. */
  readonly differing: readonly string[];
  readonly records: number;
  readonly seconds: number;
}

/** Nothing may be under way after `live` was read. Removes everything that it makes. */
export const rebuildInto = async (
  target: Target,
  live: StateHash,
  tell: (text: string) => void,
): Promise<RebuildResult> => {
  const began = performance.now();
  const name = `rebuilt_${Date.now().toString(36)}`;
  const inDatabase = (url: string): string => Object.assign(new URL(url), { pathname: `/${name}` }).href;
  const appUrl = inDatabase(target.env.POSTGRES_URL!);
  const analyticsUrl = inDatabase(target.env.CLICKHOUSE_URL!);
  await target.pool.query(`create database ${name}`);
  await target.command(`create database ${name}`);
  const owner = openPool(inDatabase(target.adminUrl), { name: "tributary-rebuild", max: 2, timeoutMs: DONE_MS });
  const clickhouse = openClickhouse(analyticsUrl, { name: "tributary-rebuild", timeoutMs: DONE_MS });
  const prefixes = parts.map((part) => `${name}.${part.name}.`);
  try {
    await migratePostgres(inDatabase(target.adminUrl), {
      appPassword: appPasswordOf(appUrl),
      log: () => undefined,
    });
    await migrateClickhouse(clickhouse);
    await copyReference(target.pool, owner);
    let records = 0;
    for (const [n, part] of parts.entries()) {
      const prefix = prefixes[n]!;
      const copied = await copyTopics(target, prefix, [part.input, ...part.beside]);
      records += copied;
      tell(`${part.name}: ${copied} records of ${part.input} are read into empty stores`);
      await readThrough(target, part, prefix, { POSTGRES_URL: appUrl, CLICKHOUSE_URL: analyticsUrl });
    }
    await computeWaiting(owner, clickhouse, HOURS_AT_ONCE);
    const state = await stateHash(owner, clickhouse);
    const differing = await Promise.all(differingTables(live, state).map((table) => differenceOf(target, table, name)));
    return { state, differing, records, seconds: (performance.now() - began) / 1_000 };
  } finally {
    await owner.end();
    await clickhouse.close();
    await target.pool.query(`drop database if exists ${name} with (force)`);
    await target.command(`drop database if exists ${name}`);
    for (const prefix of prefixes) await removeTopics(target, prefix);
  }
};

const differenceOf = async (target: Target, table: string, rebuilt: string): Promise<string> => {
  const rows = table.startsWith("clickhouse.")
    ? await differingRows(target.clickhouse, table.slice("clickhouse.".length), rebuilt)
    : [];
  return [`${table} differs from what was rebuilt`, ...rows].join("; ");
};

/**
 * Copies every row of every table that is not derived from the log, with times and versions
 * unchanged, because stages must see the reference data of that time.
 */
const copyReference = async (from: pg.Pool, to: pg.Pool): Promise<void> => {
  const { rows } = await to.query<{ name: string }>(
    "select table_name::text as name from information_schema.tables where table_schema = 'public' " +
      "and table_type = 'BASE TABLE'",
  );
  const writing = await to.connect();
  try {
    // Rows of one table may refer to rows of a table that is copied later.
    await writing.query("set session_replication_role = replica");
    for (const { name } of rows) {
      if (sinkTables.has(name) || beginEmpty.some((beginning) => name.startsWith(beginning))) continue;
      const found = await from.query<{ all: string | null }>(`select json_agg(t)::text as all from ${name} t`);
      const all = found.rows[0]?.all;
      if (all == null) continue;
      await writing.query(`delete from ${name}`);
      await writing.query(
        `insert into ${name} overriding system value select * from json_populate_recordset(null::${name}, $1::json)`,
        [all],
      );
    }
  } finally {
    await writing.query("set session_replication_role = origin");
    writing.release();
  }
};

const prefixed = (target: Target, topicPrefix: string) =>
  openKafka({ brokers: target.env.KAFKA_BROKERS!, clientId: "tributary-rebuild", topicPrefix });

/** Copies the same bytes with the same keys in the same order, and so into the same partitions. */
const copyTopics = async (target: Target, prefix: string, copied: readonly string[]): Promise<number> => {
  const kafka = prefixed(target, prefix);
  const admin = await kafka.admin();
  try {
    await admin.apply(topicSettings);
  } finally {
    await admin.close();
  }
  await openRegistry({ url: target.env.SCHEMA_REGISTRY_URL!, topicPrefix: prefix }).apply(Object.values(topics));
  const producer = kafka.producer();
  let records = 0;
  try {
    await target.kafka.replay({
      topics: copied,
      onBatch: async ({ topic, messages }) => {
        records += messages.length;
        // Headers are left out: they mark letters that were sent again, and a reader of this copy
        // must not report them to its index.
        await producer.send(messages.map(({ key, value }) => ({ topic, key, value })));
      },
    });
  } finally {
    await producer.close();
  }
  return records;
};

/** Runs one worker with the groups of a part until they have read their whole input. */
const readThrough = async (
  target: Target,
  part: Part,
  prefix: string,
  stores: Readonly<Record<string, string>>,
): Promise<void> => {
  const port = await freePort();
  const output = openSync(join(target.home, "logs", `rebuild-${part.name}.log`), "a");
  const child = spawn(process.execPath, ["dist/apps/worker/main.js", ...part.groups.map(({ arg }) => arg)], {
    cwd: target.root,
    env: {
      ...target.env,
      ...stores,
      PATH: searchPath(),
      KAFKA_TOPIC_PREFIX: prefix,
      OPS_PORT: String(port),
      INSTANCE_NAME: `rebuild-${part.name}`,
      LOG_LEVEL: "warn",
    },
    stdio: ["ignore", output, output],
  });
  closeSync(output);
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const end = () => child.kill("SIGKILL");
  process.once("exit", end);
  const admin = await prefixed(target, prefix).admin();
  try {
    await until(`the worker that rebuilds ${part.name} is ready`, READY_MS, async () => {
      if (child.exitCode !== null)
        throw new Error(`it ended with code ${child.exitCode}; its log is rebuild-${part.name}.log`);
      const answer = await fetch(`http://127.0.0.1:${port}/readyz`, { signal: AbortSignal.timeout(2_000) });
      if (!answer.ok) throw new Error(await answer.text());
    });
    for (const { name, arg, topic } of part.groups)
      await until(`${arg} has read the copy`, DONE_MS, async () => {
        const lags = await admin.lag(name, [topic]);
        const left = lags.reduce((sum, { lag }) => sum + lag, 0);
        if (left > 0) throw new Error(`it lags by ${left}`);
      });
  } finally {
    await admin.close();
    child.kill("SIGTERM");
    await ended;
    process.off("exit", end);
  }
};

const removeTopics = async (target: Target, prefix: string): Promise<void> => {
  const admin = await prefixed(target, prefix).admin();
  try {
    const present = await admin.topics();
    if (present.length > 0) await admin.deleteTopics(present);
  } finally {
    await admin.close();
  }
};

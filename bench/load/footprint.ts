// The size of the stores and their requests so far. The difference of two moments, divided by the
// events between them, gives bytes and requests an event.
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { Redis } from "ioredis";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import type { World } from "../world.ts";

/** Bytes and counts that grow, by name. */
export type Footprint = Readonly<Record<string, number>>;

const isSegment = (file: string): boolean => file.endsWith(".log");
/** Bytes of the files below a folder; a file that is deleted meanwhile counts nothing. */
const bytesBelow = (folder: string, counts: (path: string) => boolean = () => true): number => {
  let bytes = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true }))
    if (entry.isFile() && counts(entry.name))
      bytes += statSync(join(entry.parentPath, entry.name), { throwIfNoEntry: false })?.size ?? 0;
  return bytes;
};
const logOf = (home: string, topic: string): number => {
  const data = join(home, "kafka", "data");
  const partitions = readdirSync(data).filter((name) => name.replace(/-\d+$/, "") === topic);
  return partitions.reduce((sum, name) => sum + bytesBelow(join(data, name), isSegment), 0);
};

const clickhouseNow = async (url: string): Promise<Footprint> => {
  const clickhouse = openClickhouse(url);
  const one = async (query: string): Promise<number> =>
    Number((await (await clickhouse.query({ query, format: "JSONEachRow" })).json<{ n: string }>())[0]?.n ?? 0);
  try {
    return {
      "ClickHouse bytes": await one("select sum(bytes_on_disk) as n from system.parts where active"),
      "ClickHouse inserts": await one("select value as n from system.events where event = 'InsertQuery'"),
    };
  } finally {
    await clickhouse.close();
  }
};
const postgresNow = async (url: string): Promise<Footprint> => {
  const pool = openPool(url, { name: "tributary-bench", max: 1 });
  try {
    const { rows } = await pool.query<{ bytes: string; transactions: string; written: string }>(
      `select pg_database_size(current_database()) as bytes, sum(xact_commit) as transactions,
        (select sum(n_tup_ins + n_tup_upd) from pg_stat_user_tables) as written
       from pg_stat_database where datname = current_database()`,
    );
    const { bytes, transactions, written } = rows[0]!;
    return {
      "Postgres bytes": Number(bytes),
      "Postgres transactions": Number(transactions),
      "Postgres rows written": Number(written),
    };
  } finally {
    await pool.end();
  }
};
const redisNow = async (url: string): Promise<Footprint> => {
  const redis = new Redis(url, { lazyConnect: true });
  try {
    await redis.connect();
    const of = async (section: string, name: string) =>
      Number(new RegExp(`^${name}:(\\d+)`, "m").exec(await redis.info(section))?.[1] ?? 0);
    return {
      "Redis commands": await of("stats", "total_commands_processed"),
      "Redis bytes": await of("memory", "used_memory"),
    };
  } finally {
    redis.disconnect();
  }
};

export const footprintOf = async ({ stack: { env }, home }: World): Promise<Footprint> => ({
  "events.raw bytes": logOf(home, "events.raw"),
  "events.attributed bytes": logOf(home, "events.attributed"),
  "log bytes": bytesBelow(join(home, "kafka", "data"), isSegment),
  "archive bytes": bytesBelow(join(home, "objects")),
  ...(await clickhouseNow(env.CLICKHOUSE_URL!)),
  ...(await postgresNow(env.POSTGRES_ADMIN_URL!)),
  ...(await redisNow(env.REDIS_URL!)),
});

/** By name, for each event. */
export const perEvent = (before: Footprint, after: Footprint, events: number): Footprint =>
  Object.fromEntries(Object.entries(after).map(([name, value]) => [name, (value - (before[name] ?? 0)) / events]));

// The ClickHouse engine in this process: one data folder, several connections, each of which runs
// one statement at a time.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { open, rm } from "node:fs/promises";
import { join } from "node:path";
import type { RawInsertFormat, Session } from "chdb";
import { quoted, settingsClause } from "./clickhouse-sql.ts";

/** The result of one statement: its bytes in the requested format, and its cost. */
export interface Answer {
  readonly bytes: Uint8Array;
  readonly rowsRead: number;
  readonly bytesRead: number;
  readonly rowsWritten: number;
  readonly seconds: number;
}

interface RawInsert {
  readonly table: string;
  readonly columns?: readonly string[];
  readonly format: string;
  /** The body in the pieces that arrived. */
  readonly rows: readonly Buffer[];
  readonly settings: ReadonlyMap<string, string>;
}

export interface Engine {
  readonly query: (lane: LaneName, database: string, sql: string, format: string) => Promise<Answer>;
  readonly insert: (database: string, insert: RawInsert) => Promise<Answer>;
  readonly close: () => Promise<void>;
}

type LaneName = "read" | "insert" | "copy" | "change";

/**
 * Statements of one connection wait for each other, so each kind of work has its own connections,
 * and a dashboard never waits for a backfill.
 */
interface Lane {
  readonly session: Session;
  database: string;
  waiting: number;
  tail: Promise<unknown>;
}

interface LaneSettings {
  readonly connections: number;
  readonly limitSeconds: number;
  /**
   * The engine enforces these for every statement of the lane, and no statement can change them.
   */
  readonly held: Readonly<Record<string, number>>;
}
const NO_DDL = { allow_ddl: 0 };
const LANES: Readonly<Record<LaneName, LaneSettings>> = {
  // The value 2 forbids writing and still accepts settings of the statement itself.
  read: { connections: 3, limitSeconds: 60, held: { ...NO_DDL, readonly: 2 } },
  insert: { connections: 2, limitSeconds: 60, held: NO_DDL },
  copy: { connections: 1, limitSeconds: 600, held: NO_DDL },
  change: { connections: 1, limitSeconds: 600, held: {} },
};

// The rights of the engine's one user: tables of this product, on this disk. Without a grant on
// SOURCES no statement reads or writes a file, an address or another server, and no statement can
// end the server.
const GRANTS = [
  "GRANT SHOW, SELECT, INSERT, ALTER, CREATE DATABASE, CREATE TABLE, CREATE TEMPORARY TABLE, CREATE VIEW, DROP, " +
    "TRUNCATE, OPTIMIZE, CHECK, CREATE FUNCTION, DROP FUNCTION, SYSTEM MERGES, KILL QUERY ON *.*",
  ...["MergeTree", "ReplacingMergeTree", "Memory"].map((engine) => `GRANT TABLE ENGINE ON ${engine}`),
];
const USERS_CONFIG = `<clickhouse>
  <users>
    <default>
      <no_password/>
      <networks><ip>::/0</ip></networks>
      <profile>default</profile>
      <quota>default</quota>
      <grants>${GRANTS.map((grant) => `<query>${grant}</query>`).join("")}</grants>
    </default>
  </users>
  <profiles><default/></profiles>
  <quotas><default/></quotas>
</clickhouse>
`;

// Server settings: 4 GiB of the 10 that the whole product may take, and caches that fit a laptop.
const serverConfig = (usersFile: string): string => `<clickhouse>
  <users_config>${usersFile}</users_config>
  <max_server_memory_usage>4294967296</max_server_memory_usage>
  <mark_cache_size>134217728</mark_cache_size>
  <background_pool_size>2</background_pool_size>
  <background_merges_mutations_concurrency_ratio>2</background_merges_mutations_concurrency_ratio>
</clickhouse>
`;

// The engine would round larger integers and decimals to doubles in JSON; asynchronous inserts
// answer before they are written.
const CONNECTION_SETTINGS = {
  max_threads: 2,
  // Bound values are written into the statement here; a server does not count them.
  max_query_size: 16_777_216,
  async_insert: 0,
  output_format_json_quote_64bit_integers: 1,
  output_format_json_quote_decimals: 1,
  max_memory_usage: 3_221_225_472,
};

/** The most parts of one call; Linux takes 1,024. */
const MOST_PARTS = 1_000;

/**
 * The formats that the engine takes as bytes. It reads every other format, mostly binary ones, from
 * a file.
 */
const RAW_FORMATS = new Set([
  "JSONEachRow",
  "JSONCompactEachRow",
  "TabSeparated",
  "TSV",
  "TabSeparatedWithNames",
  "TSVWithNames",
  "CSV",
  "CSVWithNames",
]);

/**
 * Opens the data folder, warm: the first statement of a fresh engine takes ten times as long as the
 * next.
 * @throws Error when another process holds the folder.
 */
export async function openEngine(folder: string): Promise<Engine> {
  const { Session: Open } = await import("chdb");
  const config = writeConfig(folder);
  const inserts = emptyInserts(folder);
  let files = 0;
  const connect = (lane: LaneSettings): Lane => ({
    session: new Open(folder, { connectionArgs: argumentsOf(config, lane) }),
    database: "",
    waiting: 0,
    tail: Promise.resolve(),
  });
  const lanes = Object.fromEntries(
    Object.entries(LANES).map(([name, lane]) => [name, Array.from({ length: lane.connections }, () => connect(lane))]),
  ) as Record<LaneName, Lane[]>;
  const all = Object.values(lanes).flat();

  const query: Engine["query"] = (lane, database, sql, format) =>
    inLane(lanes[lane], database, async (session) => {
      const result = await session.queryAsync(sql, { format });
      return {
        bytes: result.bytes(),
        rowsRead: result.rowsRead,
        bytesRead: result.bytesRead,
        rowsWritten: 0,
        seconds: result.elapsed,
      };
    });

  await query("change", "default", "CREATE DATABASE IF NOT EXISTS tributary", "TabSeparated");
  await Promise.all(all.map((lane) => lane.session.queryAsync("SELECT count() FROM system.tables")));
  return {
    query,
    insert: (database, insert) =>
      inLane(lanes.insert, database, (session) =>
        RAW_FORMATS.has(insert.format)
          ? insertBytes(session, insert)
          : insertFile(session, join(inserts, String(files++)), insert),
      ),
    close: async () => {
      await Promise.all(all.map((lane) => lane.tail));
      for (const lane of all) lane.session.close();
    },
  };
}

/** Writes the configuration of the engine beside its folder, and returns its path. */
const writeConfig = (folder: string): string => {
  const config = join(folder, "..", "clickhouse-server.xml");
  const users = join(folder, "..", "clickhouse-users.xml");
  writeFileSync(users, USERS_CONFIG);
  writeFileSync(config, serverConfig(users));
  return config;
};

/** The folder of rows on their way into the engine; files that a dead process left are removed. */
const emptyInserts = (folder: string): string => {
  const inserts = join(folder, "inserts");
  rmSync(inserts, { recursive: true, force: true });
  mkdirSync(inserts, { mode: 0o700 });
  return inserts;
};

const argumentsOf = (config: string, { limitSeconds, held }: LaneSettings): string[] => [
  `--config-file=${config}`,
  ...Object.entries({ ...CONNECTION_SETTINGS, max_execution_time: limitSeconds, ...held }).map(
    ([name, value]) => `--${name}=${value}`,
  ),
];

/** Runs `work` on the connection with the fewest waiting, in the database that it wants. */
const inLane = <T>(
  connections: readonly Lane[],
  database: string,
  work: (session: Session) => Promise<T>,
): Promise<T> => {
  const lane = connections.reduce((least, next) => (next.waiting < least.waiting ? next : least));
  lane.waiting += 1;
  const done = lane.tail.then(async () => {
    if (lane.database !== database) {
      await lane.session.queryAsync(`USE \`${database.replace(/[`\\]/g, "\\$&")}\``);
      lane.database = database;
    }
    return work(lane.session);
  });
  lane.tail = done
    .catch(() => discardRest(lane.session))
    .then(() => {
      lane.waiting -= 1;
    });
  return done;
};

/**
 * Rows that a statement had found before it failed stay in the connection, and would begin the next
 * answer, perhaps of another tenant.
 */
const discardRest = async (session: Session): Promise<void> => {
  for (let tries = 0; tries < 100; tries += 1) {
    const { length } = (await session.queryAsync("SELECT 1", { format: "TabSeparated" })).bytes();
    if (length === "1\n".length) return;
  }
  throw new Error("a connection of the engine keeps answers of earlier statements");
};

const insertBytes = async (
  session: Session,
  { table, columns, format, rows, settings }: RawInsert,
): Promise<Answer> => {
  const summary = await session.insert({
    table,
    format: format as RawInsertFormat,
    values: rows.length === 1 ? rows[0]! : Buffer.concat(rows),
    ...(columns && { columns }),
    settings: Object.fromEntries(settings),
  });
  return {
    bytes: new Uint8Array(0),
    rowsRead: 0,
    bytesRead: 0,
    rowsWritten: summary.rowsWritten,
    seconds: summary.elapsed,
  };
};

const insertFile = async (
  session: Session,
  file: string,
  { table, columns, format, rows, settings }: RawInsert,
): Promise<Answer> => {
  const target = `${table}${columns === undefined ? "" : ` (${columns.join(", ")})`}`;
  try {
    await writeParts(file, rows);
    const { rowsRead, elapsed } = await session.queryAsync(
      `INSERT INTO ${target} FROM INFILE ${quoted(file)} ${settingsClause(settings)} FORMAT ${format}`,
    );
    return { bytes: new Uint8Array(0), rowsRead: 0, bytesRead: 0, rowsWritten: rowsRead, seconds: elapsed };
  } finally {
    await rm(file, { force: true });
  }
};

/**
 * No part is copied, and each call continues where the previous one stopped. A full disk is
 * reported in the engine's words, so that a sink tries again.
 */
const writeParts = async (file: string, parts: readonly Buffer[]): Promise<void> => {
  const handle = await open(file, "wx", 0o600).catch(toldAsFull);
  try {
    for (let left = [...parts]; left.length > 0; ) {
      let { bytesWritten } = await handle.writev(left.slice(0, MOST_PARTS));
      while (left.length > 0 && bytesWritten >= left[0]!.length) bytesWritten -= left.shift()!.length;
      if (left.length > 0 && bytesWritten > 0) left = [left[0]!.subarray(bytesWritten), ...left.slice(1)];
    }
  } catch (error) {
    toldAsFull(error);
  } finally {
    await handle.close();
  }
};

const toldAsFull = (error: unknown): never => {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === "ENOSPC" || code === "EDQUOT")
    throw new Error(`Code: 243. DB::Exception: ${message}. (NOT_ENOUGH_SPACE)`, { cause: error });
  throw error;
};

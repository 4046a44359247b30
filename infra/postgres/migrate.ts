// Brings a database to the newest of the numbered .sql files, forward only, and reports where it
// stands.

import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { revokeStatements, roleStatements } from "./logins.ts";
import { openPool, sql } from "./sql.ts";

export interface Migration {
  readonly number: number;
  readonly file: string;
  readonly text: string;
  readonly checksum: string;
}
interface AppliedMigration {
  readonly number: number;
  readonly file: string;
  readonly checksum: string;
  readonly applied_at: number;
}
export interface MigrationStatus {
  readonly applied: readonly AppliedMigration[];
  readonly pending: readonly string[];
  /**
   * Files that differ from the applied version, and applied files that are missing. Either makes
   * `migrate` refuse.
   */
  readonly problems: readonly string[];
}

/**
 * The files are beside the sources, because tsc copies none. They are found from here or from dist/
 * by the package.json above both.
 */
const shipped = (): string => {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json"))) folder = dirname(folder);
  return join(folder, "migrations", "postgres");
};

/**
 * Reads `NNN_name.sql` files in the order of their numbers. Throws on any other name and on a
 * number given twice.
 */
export const migrationsIn = (folder: string): readonly Migration[] => {
  const migrations = readdirSync(folder)
    .filter((file) => file.endsWith(".sql"))
    .map((file) => {
      const number = /^(\d{3})_[a-z0-9_]+\.sql$/.exec(file)?.[1];
      if (number === undefined)
        throw new Error(`${join(folder, file)} is not named NNN_name.sql (three digits, lower case)`);
      const text = readFileSync(join(folder, file), "utf8").replaceAll("\r\n", "\n");
      return { number: Number(number), file, text, checksum: createHash("sha256").update(text).digest("hex") };
    })
    .sort((a, b) => a.number - b.number);
  for (const [n, { number, file }] of migrations.entries())
    if (migrations[n - 1]?.number === number)
      throw new Error(`${migrations[n - 1]?.file} and ${file} have the same number: rename one`);
  return migrations;
};

/**
 * Splits a file at the semicolons that end statements, and returns the line on which each begins.
 */
export const statementsOf = (text: string): readonly { readonly line: number; readonly text: string }[] => {
  const tokens = /\$(\w*)\$[\s\S]*?\$\1\$|'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\/|;|[^;$'"/-]+|./g;
  const found: { line: number; text: string }[] = [];
  let start = 0;
  const add = (end: number): void => {
    const piece = text.slice(start, end);
    const skipped = /^(?:\s|--[^\n]*(?:\n|$))*/.exec(piece)?.[0].length ?? 0;
    if (skipped < piece.length)
      found.push({ line: text.slice(0, start + skipped).split("\n").length, text: piece.slice(skipped) });
    start = end + 1;
  };
  for (const token of text.matchAll(tokens)) if (token[0] === ";") add(token.index);
  add(text.length);
  return found;
};

/** The table of applied files is the only one that no file makes. */
const bookkeeping = `create table if not exists migrations (
  number int primary key, file text not null, checksum text not null,
  applied_at timestamptz(3) not null default clock_timestamp())`;

const appliedIn = async (db: pg.Pool | pg.PoolClient): Promise<readonly AppliedMigration[]> => {
  const { rows: found } = await db.query<{ exists: boolean }>("select to_regclass('migrations') is not null as exists");
  if (!found[0]?.exists) return [];
  return (await db.query<AppliedMigration>("select number, file, checksum, applied_at from migrations order by number"))
    .rows;
};

const problemsOf = (migrations: readonly Migration[], applied: readonly AppliedMigration[]): readonly string[] =>
  applied.flatMap((row) => {
    const migration = migrations.find(({ number }) => number === row.number);
    if (migration === undefined)
      return (
        `${row.file} was applied and is not among the files here: the database is newer than this code, ` +
        "start the version that wrote it"
      );
    if (migration.checksum === row.checksum) return [];
    const next = String(Math.max(...migrations.map(({ number }) => number)) + 1).padStart(3, "0");
    return (
      `${migration.file} was changed after it had been applied on ` +
      `${new Date(row.applied_at).toISOString()}: restore it ` +
      `(git log --oneline -- migrations/postgres/${row.file}; git checkout <commit> -- ` +
      `migrations/postgres/${row.file}) ` +
      `and put the change into a new file ${next}_....sql; a database that may be thrown away can be ` +
      "dropped and migrated again instead"
    );
  });

/** Lists the applied and the pending files and the problems. Writes nothing. */
export const status = async (adminUrl: string, folder = shipped()): Promise<MigrationStatus> => {
  const pool = openPool(adminUrl, { name: "tributary-migrate", max: 1 });
  try {
    const migrations = migrationsIn(folder);
    const applied = await appliedIn(pool);
    const isApplied = new Set(applied.map(({ number }) => number));
    return {
      applied,
      pending: migrations.filter(({ number }) => !isApplied.has(number)).map(({ file }) => file),
      problems: problemsOf(migrations, applied),
    };
  } finally {
    await pool.end();
  }
};

/**
 * Applies the pending files, each in a transaction of its own, so that after a failure the next run
 * continues with the file that failed. Concurrent callers take turns. A file with a lower number
 * than the newest applied one is applied too: files of one release by several authors do not depend
 * on each other's order. Throws an error that names file, line and statement, with the server's own
 * words; refuses an edited file and names the cure.
 */
export const migrate = async (
  adminUrl: string,
  options: { readonly appPassword: string; readonly folder?: string; readonly log?: (line: string) => void },
): Promise<{ readonly applied: readonly string[] }> => {
  const migrations = migrationsIn(options.folder ?? shipped());
  // A migration may rewrite a large table, so it gets 10 minutes.
  const pool = openPool(adminUrl, { name: "tributary-migrate", max: 1, timeoutMs: 600_000 });
  const db = await pool.connect();
  db.on("error", () => undefined);
  try {
    await refuseOldServer(db);
    await db.query("select pg_advisory_lock(hashtext('tributary.migrate'))");
    await makeRoles(db, options.appPassword);
    await db.query(bookkeeping);
    await db.query("grant select on migrations to tributary_app");
    const before = await appliedIn(db);
    const problems = problemsOf(migrations, before);
    if (problems.length > 0) throw new Error(problems.join("\n"));
    const done = new Set(before.map(({ number }) => number));
    const applied: string[] = [];
    for (const migration of migrations.filter(({ number }) => !done.has(number))) {
      await apply(db, migration);
      applied.push(migration.file);
      options.log?.(`applied ${migration.file}`);
    }
    for (const statement of revokeStatements()) await patiently(() => db.query(statement));
    return { applied };
  } finally {
    // Closing the session releases the lock, whatever state it is in.
    db.release(true);
    await pool.end();
  }
};

const apply = async (db: pg.PoolClient, migration: Migration): Promise<void> => {
  await db.query("begin");
  for (const statement of statementsOf(migration.text)) {
    try {
      await db.query(statement.text);
    } catch (error) {
      const { message, detail, hint, code } = error as pg.DatabaseError;
      await db.query("rollback").catch(() => undefined);
      const more = [detail, hint].filter(Boolean).map((line) => `\n  ${line}`);
      throw new Error(
        `${migration.file}, line ${statement.line}: ` +
          `${message}${code === undefined ? "" : ` (${code})`}${more.join("")}\n  in: ` +
          `${statement.text.slice(0, 300)}\n` +
          "  nothing of this file was applied; correct it and migrate again",
        { cause: error },
      );
    }
  }
  await db.query(
    sql`insert into migrations (number, file, checksum)
      values (${migration.number}, ${migration.file}, ${migration.checksum})`,
  );
  await db.query("commit");
};

const refuseOldServer = async (db: pg.PoolClient): Promise<void> => {
  const { rows } = await db.query<{ version: number; words: string }>(
    "select current_setting('server_version_num')::int as version, current_setting('server_version') as words",
  );
  // transaction_timeout, by which a saved change is never late, is new in 17.
  if (rows[0]!.version < 170_000)
    throw new Error(
      `Postgres 17 or newer is needed, and this is ${rows[0]!.words}: upgrade it, or leave ` +
        "POSTGRES_URL unset for the embedded one",
    );
};

/**
 * tributary_app logs in and owns nothing (infra/postgres/logins.ts has the others). Roles belong to
 * the whole server: two databases on one server share them, and the last password counts.
 */
const makeRoles = async (db: pg.PoolClient, appPassword: string): Promise<void> => {
  const statements = [
    ...roleStatements(),
    "alter role tributary_app login nocreatedb nocreaterole connection limit -1 password " +
      `${pg.escapeLiteral(appPassword)}`,
    "revoke create on schema public from public",
  ];
  for (const statement of statements) await patiently(() => db.query(statement));
  const { rows } = await db.query<{ rolname: string }>(
    "select rolname from pg_roles where rolname like 'tributary\\_app%' and (rolsuper or rolbypassrls)",
  );
  for (const { rolname } of rows)
    throw new Error(`the role ${rolname} goes past row-level security: alter role ${rolname} nosuperuser nobypassrls`);
};

/**
 * Another database of this server may be changing the same roles at this moment: Postgres then says
 * XX000, "tuple concurrently updated".
 */
const patiently = async (attempt: () => Promise<unknown>): Promise<void> => {
  for (let left = 20; ; left -= 1) {
    try {
      await attempt();
      return;
    } catch (error) {
      if ((error as pg.DatabaseError).code !== "XX000" || left === 0) throw error;
      await sleep(20 + Math.random() * 50);
    }
  }
};
